"""The Merkle tree of RFC 6962 over the stored envelopes.

A leaf is the hash of the exact stored bytes, and also the row's checksum. The root of all
leaves is written in the row's own transaction. It is computed from the *frontier*: the roots of
the perfect subtrees given by the binary digits of the size, at most 64 of them. RFC 9162 defines the
same tree and describes the proofs.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

HASH_BYTES: Final = 32
"""Size of a hash; bytes."""

LEAF: Final = b"\x00"
"""Precedes a leaf's bytes, so that a leaf cannot be mistaken for an inner node."""

NODE: Final = b"\x01"
"""Precedes the two hashes of an inner node."""

EMPTY_ROOT: Final = sha256(b"").digest()
"""The root of a tree without leaves."""

_SIZE_BYTES: Final = 8


def leaf_hash(data: bytes) -> bytes:
    """Return the 32-byte hash of one leaf's bytes."""
    return sha256(LEAF + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the 32-byte hash of an inner node from the hashes of its children."""
    return sha256(NODE + left + right).digest()


class Frontier:
    """The part of a tree that is needed to add leaves and to compute its root.

    Attributes:
        size: The number of leaves of the tree.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self._peaks = list(peaks)  # roots of perfect subtrees, the largest first

    def add(self, leaf: bytes) -> None:
        """Add one leaf by its hash; 32 bytes."""
        peaks, size = self._peaks, self.size
        while size & 1:
            leaf = sha256(NODE + peaks.pop() + leaf).digest()
            size >>= 1
        peaks.append(leaf)
        self.size += 1

    def extend(self, leaves: list[bytes]) -> None:
        """Add many leaves by their hashes, in order; one level of the tree at a time."""
        peaks, size, left_over = self._peaks, self.size, []
        carry = leaves
        while carry:
            if size & 1:
                carry = [peaks.pop(), *carry]
            size >>= 1
            if len(carry) & 1:
                left_over.append(carry[-1])
            pairs = zip(carry[::2], carry[1::2], strict=False)  # an odd one stays for the next round
            carry = [sha256(NODE + left + right).digest() for left, right in pairs]
        self.size += len(leaves)
        peaks.extend(reversed(left_over))

    def root(self) -> bytes:
        """Return the 32-byte root of all leaves; without leaves, SHA-256 of the empty string."""
        if not self._peaks:
            return EMPTY_ROOT
        root = self._peaks[-1]
        for peak in self._peaks[-2::-1]:
            root = sha256(NODE + peak + root).digest()
        return root

    def copy(self) -> Frontier:
        """Return an independent copy."""
        return Frontier(self.size, self._peaks)

    def record(self) -> bytes:
        """Return the stored form: the root, the size as 8 bytes, big-endian, and the subtree roots."""
        return self.root() + self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self._peaks)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frontier:
        """Return the frontier of a stored form after its root.

        Raises:
            ValueError: The bytes are not a frontier: their number does not match their size field.
        """
        size = int.from_bytes(data[:_SIZE_BYTES], "big")
        if len(data) != _SIZE_BYTES + HASH_BYTES * size.bit_count():
            msg = f"the frontier of a tree with {size} leaves cannot have {len(data)} bytes"
            raise ValueError(msg)
        return cls(size, (data[at : at + HASH_BYTES] for at in range(_SIZE_BYTES, len(data), HASH_BYTES)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frontier) and self.size == other.size and self._peaks == other._peaks

    __hash__ = None  # type: ignore[assignment]  # it changes
