from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful.encoding.merkle import EMPTY_ROOT, HASH_BYTES, Frontier, leaf_hash, node_hash

# The test vectors of Certificate Transparency: leaves, and the root after each of them.
VECTORS = [
    ("", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
    ("00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
    ("10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
    ("2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
    ("3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
    ("40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
    ("5051525354555657", "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
    ("606162636465666768696a6b6c6d6e6f", "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
]

sizes = st.integers(min_value=0, max_value=300)


def leaves(count: int, first: int = 0) -> list[bytes]:
    return [leaf_hash(str(n).encode()) for n in range(first, first + count)]


def root_by_definition(hashes: list[bytes]) -> bytes:
    """RFC 6962, 2.1: split at the largest power of two below the size."""
    if not hashes:
        return sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << (len(hashes) - 1).bit_length() - 1
    return node_hash(root_by_definition(hashes[:split]), root_by_definition(hashes[split:]))


def test_roots_are_those_of_certificate_transparency() -> None:
    tree = Frontier()
    for leaf, root in VECTORS:
        tree.add(leaf_hash(bytes.fromhex(leaf)))
        assert tree.root().hex() == root
    assert tree.size == len(VECTORS)


def test_the_root_of_nothing_is_the_hash_of_nothing() -> None:
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert Frontier().root() == EMPTY_ROOT


@given(count=sizes)
def test_the_incremental_root_is_that_of_the_definition(count: int) -> None:
    tree = Frontier()
    for leaf in leaves(count):
        tree.add(leaf)

    assert tree.root() == root_by_definition(leaves(count))


@given(parts=st.lists(sizes, max_size=5))
def test_adding_many_at_once_is_adding_each(parts: list[int]) -> None:
    together, each = Frontier(), Frontier()
    for part in parts:
        new = leaves(part, together.size)
        kept = list(new)
        together.extend(new)
        for leaf in kept:
            each.add(leaf)
        assert new == kept, "the caller's list was changed"
        assert together == each

    assert together.root() == root_by_definition(leaves(sum(parts)))


@given(count=sizes)
def test_a_stored_frontier_goes_on_where_it_was(count: int) -> None:
    tree = Frontier()
    tree.extend(leaves(count))
    again = Frontier.from_bytes(tree.record()[HASH_BYTES:])

    assert again == tree
    again.add(leaves(1, count)[0])
    assert again.root() == root_by_definition(leaves(count + 1))


def test_a_copy_grows_on_its_own() -> None:
    tree = Frontier()
    tree.extend(leaves(3))
    copy = tree.copy()
    copy.add(leaves(1, 3)[0])

    assert (tree.size, copy.size) == (3, 4)
    assert tree.root() == root_by_definition(leaves(3))


@pytest.mark.parametrize("cut", [0, 8, 8 + 32, 8 + 64 - 1, 8 + 64 + 1])
def test_bytes_that_are_no_frontier_are_refused(cut: int) -> None:
    tree = Frontier()
    tree.extend(leaves(5))
    whole = tree.record()[HASH_BYTES:]
    assert len(whole) == 8 + 64, "five leaves are two perfect trees"
    with pytest.raises(ValueError, match=r"the frontier of a tree with \d leaves cannot have"):
        Frontier.from_bytes((whole + b"x")[:cut])


def test_a_leaf_cannot_pass_for_an_inner_node() -> None:
    left, right = leaves(2)
    assert leaf_hash(left + right) != node_hash(left, right)
    assert leaf_hash(b"\x01" + left + right) != node_hash(left, right)
