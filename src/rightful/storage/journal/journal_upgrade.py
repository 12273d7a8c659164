"""Give a store of an older format the journal of the current format.

A store of format 1 has no journal, so one is made next to it, and then recorded. A store of format 2 first moves the
rows of its journal into the tables, in the transaction that marks the store as being rewritten. From then on
the old file is not read. It is made again, and then recorded. A kill in between leaves a store that
works without a journal, until a process opens it alone.
"""

from __future__ import annotations

import lmdb
import msgspec

from rightful.errors import ForeignStoreError, StorageError, StoreFullError
from rightful.storage.commit import RowCommitter
from rightful.storage.environment import create_store
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.transaction import SpoiledError, UnclearError


def upgrade(env: Environment) -> None:
    """Make a journal of the current format, unless another process has the store open, which would not notice it.

    If there is no room for one, the store is unchanged and all rows go into the tables.

    Raises:
        StorageError: The store failed.
    """
    with env.alone() as alone:
        if not alone:
            return
        try:
            if env.about.journal_bytes:
                _move_rows(env)
            _make_journal(env)
        except (ForeignStoreError, StoreFullError):  # the next use reports it, or works with the room there is
            env.renew()
        except lmdb.Error as error:
            raise storage_error(env.root, error) from error


def _move_rows(env: Environment) -> None:
    """Move all rows of a journal of format 2 into the tables, and mark the store as being rewritten."""
    about, _ = create_store.with_new_key(env.about)
    about = msgspec.structs.replace(about, journal_bytes=0, rewriting=True)
    committer = RowCommitter(env)
    try:
        committer.drain(about.to_bytes())
    except (SpoiledError, UnclearError) as error:
        raise (error.__cause__ if isinstance(error.__cause__, StorageError) else error) from None
    finally:
        committer.abandon()
    env.renew()


def _make_journal(env: Environment) -> None:
    about, key = create_store.with_new_key(env.about)
    store = env.data.parent
    if not create_store.make_journal(store, key.beginning(env.tables_state())):
        return
    try:
        env.change(msgspec.structs.replace(about, rewriting=False))
    except lmdb.Error as error:
        env.renew()
        if not isinstance(storage_error(env.root, error), StoreFullError):
            raise
    env.renew()
    if not env.about.journal_bytes:
        create_store.remove_journal(store)
