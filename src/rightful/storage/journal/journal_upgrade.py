"""How a store of an older format gets the journal of this one.

A store of format 1 has no journal, so one is made beside it, and then named. Of one of format 2 the rows of its
journal go into the tables first, in the transaction that marks the store as being rewritten: from then on
the file is not read. It is made again, and then named. A kill between leaves a store that
works without a journal, until another process has it alone.
"""

from __future__ import annotations

import lmdb
import msgspec

from rightful.errors import ForeignStoreError, StorageError, StoreFullError
from rightful.storage.commit import Appender
from rightful.storage.environment import create_store
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.environment.lmdb_errors import storage_error
from rightful.storage.transaction import SpoiledError, UnclearError


def upgrade(env: Environment) -> None:
    """Give a store the journal of this format, if no other process has it open, since that would not look there.

    Without room for one it stays as it is, and all goes into the tables.

    Raises:
        StorageError: The store failed.
    """
    with env.alone() as alone:
        if not alone:
            return
        try:
            if env.about.journal_bytes:
                _take_rows(env)
            _make_journal(env)
        except (ForeignStoreError, StoreFullError):  # what uses it is told, or it has a little room
            env.renew()
        except lmdb.Error as error:
            raise storage_error(env.root, error) from error


def _take_rows(env: Environment) -> None:
    """Have the tables take all rows of a journal of format 2, and mark the store as being rewritten."""
    about, _ = create_store.bound(env.about)
    about = msgspec.structs.replace(about, journal_bytes=0, rewriting=True)
    appender = Appender(env)
    try:
        appender.drain(about.to_bytes())
    except (SpoiledError, UnclearError) as error:
        raise (error.__cause__ if isinstance(error.__cause__, StorageError) else error) from None
    finally:
        appender.abandon()
    env.renew()


def _make_journal(env: Environment) -> None:
    about, bond = create_store.bound(env.about)
    store = env.data.parent
    if not create_store.make_journal(store, bond.beginning(env.tabled())):
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
