"""Every limit, with its unit and its reason.

Each limit is tested at its value and one past it. Input beyond a limit is refused with its
place; it is never truncated.
"""

from __future__ import annotations

PRODUCER_CHARS = 128
"""Length of a producer's name; characters. Every row contains it."""

KEY_BYTES = 4_096
"""Length of a producer key; bytes of UTF-8. It is hashed into the event id, and not stored."""

SESSION_BYTES = 1_024
"""Length of a session name; bytes of UTF-8. Every row contains it, and is tagged with it."""

TURN_CHARS = 256
"""Length of a turn's name; characters. Every row contains it."""

ARM_CHARS = 4_096
"""Length of an arm's name; characters. PATH_MAX on Linux, since arms are often paths."""

WORD_CHARS = 512
"""Length of a short word (rubric, outcome, role …); characters."""

ARMS_COUNT = 10_000
"""Arms in one exposure. The largest real session shows 20."""

CONTEXT_COUNT = 16
"""Dimensions of one context. Real contexts have two."""

ENVELOPE_BYTES = 65_535
"""Size of a stored envelope; bytes. The largest entry of C2SP tlog-tiles."""

EVENT_BYTES = 16 * 1024 * 1024
"""Size of one event's canonical body, and of one wire line; bytes. A whole body is in memory."""

REPLACED_BYTES = 256 * 1024 * 1024
"""Size of a file that a backfill replaces, or restores; bytes.

The whole file is in memory; a tool's file has kilobytes.
"""

BATCH_EVENTS = 100_000
"""Events in one append; it is one transaction, held in memory."""

INGEST_EVENTS = 1_000
"""Lines that `rightful ingest` appends in one transaction. More would gain nothing and delay other writers."""

INGEST_BYTES = 16 * 1024 * 1024
"""Size of the lines of one such transaction; bytes. They are in memory, parsed and as text."""

NESTING_DEPTH = 64
"""Depth of content; levels. Deeper input exhausts a recursive parser's stack."""

JSON_VALUES = 1_000_000
"""Commas and opening brackets of one JSON line. Each value takes about a hundred bytes decoded, whatever its text."""

COVERS_COUNT = 100_000
"""Items and ranges that one compaction or pop names. Ranges are short; so many single items take a few megabytes."""

URI_CHARS = 16_384
"""Length of a URI; characters. PATH_MAX is 4,096 bytes, and percent-encoding triples a byte."""

SEQ_MAX = 2**53 - 1
"""Largest grader sequence number and index. Beyond it JavaScript producers lose integers."""

AT_MIN_US = 0
"""Earliest event time; microseconds since 1970, UTC. No agent ran earlier."""

AT_MAX_US = 7_258_118_400_000_000
"""Latest event time: 2200-01-01; microseconds since 1970, UTC. A later time is a unit mistake."""

TAG_KEY_BYTES = 500
"""Longest tag kept as its own index key; bytes. LMDB 0.9 keys end at 511; longer tags are hashed."""

MAP_BYTES = 1 << 40
"""Size of LMDB's map; bytes. Sparse: it costs address space, not disk. One size, never grown."""

JOURNAL_BYTES = 2 * 1024 * 1024
"""Size of a new store's journal; bytes.

Some 400 commits of 4 KB fill it, so fewer than one commit in a hundred empties it.
"""

JOURNAL_ROWS = 512
"""Rows in the journal. Each process reads them once, in 2 ms."""

JOURNAL_COMMIT_BYTES = 128 * 1024
"""Size of the rows of a commit that goes into the journal; bytes.

Writing larger ones twice costs more than the second sync.
"""

MAX_READERS = 1_024
"""Reader slots of one environment, over all processes. Killed workers filled 126."""

TURNS_AT_ONCE = 16
"""Times in a row that a process acquires a free write lock without queueing. Then other processes get it."""

LINGER_S = 0.001
"""Longest wait of a commit for more callers; seconds."""

OUTBOX_EVENTS = 10_000
"""Events of one turn that wait to be written; beyond it a runner waits.

The fastest stream takes a second for so many.
"""

OUTBOX_BYTES = 64 * 1024 * 1024
"""Size of the waiting events of one turn; bytes. They are in memory: four of the largest events."""

OUTBOX_AGAIN_S = 1.0
"""Time from a failure to the next attempt; seconds. People need longer to empty a full disk."""

OUTBOX_EXIT_S = 10.0
"""How long a ledger's close and a program's end wait for waiting events; seconds. Then the loss is reported."""

TOLD_APART = 64
"""Answers of one interaction, the last ones, with which a repeat is compared. Each is compared as a whole."""

PAGE_ROWS = 1_024
"""Rows read in one read transaction. A pinned reader makes the file grow, so the transaction is short."""

PAGE_BYTES = 8 * 1024 * 1024
"""Size of these rows; bytes. The row that reaches it ends the page: otherwise 1,024 rows could take 16 GB of memory."""

WAIT_S = 30.0
"""How long an append waits for other writers before it gives up; seconds."""

LOOKUP_EVIDENCE = 3
"""Credits a context needs before its posterior is used instead of the next wider one (gptme)."""

IMPORT_EVENTS = 1_000
"""Events that an import writes in one transaction. They share one sync; other writers wait for milliseconds."""

BESIDE_BYTES = 65_536
"""Size of a small file that is read together with another (settings, a manifest); bytes. Real ones have 2 kB."""

IMPORT_BYTES = 4 * 1024 * 1024
"""Size of the lines whose events an import writes in one transaction; bytes. Their events are in memory."""

DATABASE_WAIT_S = 5.0
"""How long an import waits for a program that locks its database against readers; seconds. SQLite's own default."""

RESIDENT_BYTES = 64 * 1024 * 1024
"""How much of mapped files an importing process keeps resident; bytes. An import may take 200 MB in all."""

CHECKPOINT_BYTES = 8 * 1024 * 1024
"""Size of the checkpoint of one file; bytes.

A turn takes a few bytes; a file with a longer one is read again instead.
"""

CHECKPOINT_EVERY_BYTES = 64 * 1024 * 1024
"""How much of a file is read before a checkpoint is stored; bytes. A killed import repeats two seconds of work."""

CHECKPOINT_RANGES = 4_096
"""Ranges of positions in a checkpoint for the events of its file; more are merged into fewer, wider ranges."""

CHECKPOINT_DAYS = 90
"""How long the checkpoint of a file that does not grow is kept; days. Tools delete transcripts after 30."""

WATCH_LOOK_S = 60.0
"""How often a watch checks everything, whatever its watcher reported; seconds. A walk of 10,000 files takes 0.1."""

WATCH_AGAIN_S = 5.0
"""Time until a watch retries what it could not write because the ledger was locked; seconds.

Locks last milliseconds.
"""

PROBLEMS_COUNT = 1_000
"""Problems that an import reports for one file; the others are counted. A foreign file has one in each line."""

COVERAGE_SESSIONS = 10
"""Sessions a day needs before its coverage is judged.

If 90% is usual, chance alone takes 10 sessions so low on 1 day in 80, and 5 sessions on 1 in 12.
"""

COVERAGE_DAYS = 7
"""Earlier days with so many sessions, with whose median a day's coverage is compared. A week has all weekdays."""

COVERAGE_POINTS = 20
"""How far below that median a day's coverage may be; percentage points. A tool that stopped writing loses more."""

DECAYS_ALONE = 20
"""Decays without a credit after which an arm is reported as only decaying.

At gamma 0.99 a fifth of its evidence is gone.
"""

DOUBTFUL_PERCENT = 10
"""Share of conflicting or ambiguous grades, of all that a policy considers, above which it is reported; percent."""

CREDITED_PERCENT = 10
"""Share of credited grades, among the newest ones, below which it is reported; percent.

A join that works credits most.
"""

CREDITED_DAYS = 30
"""Days before the newest grade whose grades are counted for that. A month has every kind of session."""

CREDITED_COUNT = 10
"""Grades within those days below which it is reported only if none is credited."""

REWARDLESS_COUNT = 30
"""Selections without one reward above 0.5 that are reported. If one in ten earned one, 30 without are 4%."""

STATUS_ROWS = 200_000
"""Rows that a plain `status` folds to show coverage.

More take seconds, and a read-only command stores nothing of it.
"""

FOREIGN_OBJECTS = 10_000
"""Objects of a file in a folder that are checked before it is skipped. They take 0.1 s."""

WALK_ENTRIES = 1_000_000
"""Entries that are checked below one folder. More indicate a mistaken path, such as `/`."""

HOOK_WAIT_S = 1.0
"""How long an agent's hook waits for other writers; seconds. Claude Code allows 1.5 at a session's end."""

HOOK_AGAIN_S = 0.1
"""How long it waits if a call of the last minute waited without success; seconds. A stuck ledger must not cost more."""

HOOK_TOTAL_S = 5.0
"""How long a call of an agent's hook may take in all; seconds. Half of the timeout that is written to the settings."""

HOOK_STDIN_S = 4.0
"""How long it waits for its whole input; seconds. A busy agent writes late; the rest of the time is for its events."""

HOOK_KEEP_S = 2.0
"""How long it may continue to spool what it could not write; seconds.

With the 5 s above it stays below Claude Code's 10.
"""

HOOK_INPUT_BYTES = 17 * 1024 * 1024
"""Input that a hook reads of one call; bytes. An event's body of 16 MiB, and the fields around it."""

HOOK_READ_BYTES = 64 * 1024 * 1024
"""How much a hook reads of a lesson file that is new to it; bytes. It takes 0.1 s; an import reads more."""

HOOK_EXPOSURES = 1_000
"""Exposures that one call of a hook reads; one transaction, 0.2 s. The next call continues after them."""

HOOK_CURSORS = 1_000
"""Sessions whose place in the lesson files is stored; files of 500 bytes. A session that is killed leaves its file."""

SPOOL_FILES = 10_000
"""Calls that one spool folder keeps; files. A busy day of one machine; listing them takes 10 ms."""

SPOOL_BYTES = 256 * 1024 * 1024
"""Size of one spool folder; bytes. A quarter of a small disk quota; the oldest is kept, the newest refused."""

SPOOL_LINE_BYTES = 128 * 1024 * 1024
"""Longest line that is read of a spooled call; bytes. A byte of the largest input takes six as an escape."""

SPOOL_DRAIN_FILES = 200
"""Spooled calls that a hook writes before its own; files. They cost it 0.2 s at most."""

SPOOL_DRAIN_EVENTS = 1_000
"""Spooled events after which a hook continues with its own; one transaction. They cost it 0.2 s at most."""

SPOOL_COMMAND_EVENTS = 100_000
"""Spooled events after which a command continues with its own work. They take 10 s; the next command drains more."""

SPOOL_PATHS = 16
"""Former paths of a ledger that are remembered, for calls that wait there. Every call checks each of them."""

ASIDE_FILES = 100
"""Inputs from which no event could be made, kept for people; files. The first ones show what is wrong."""

ASIDE_BYTES = 65_536
"""How much of such an input is kept; bytes."""

EVIDENCE_BYTES = 4 * 1024 * 1024
"""How much of a transcript is read to find its owner; bytes. System prompts before the first turn have kilobytes."""

EVIDENCE_OBJECTS = 50
"""Objects that are read after a transcript's first user turn, for other ids in it. They take 1 ms."""

EVIDENCE_BROKEN = 1_000
"""Broken lines before the first whole object after which a file is not treated as a transcript. They take 10 ms."""

EVIDENCE_TAIL_BYTES = 65_536
"""How much of a transcript's end is read for its own id, if its beginning was copied from another; bytes."""

RUN_COMMITS = 1_000
"""Commits of one run that are recorded, and candidates; the others are counted. A session makes dozens."""

RUN_FILES = 100_000
"""Transcripts of a tool that are checked after a run. A busy year leaves some ten thousand; each takes 0.1 ms."""

RUN_WAIT_S = 10.0
"""How long a run waits for other writers, at its start and at its end; seconds.

What could not be written is spooled.
"""

LOCATE_DEPTH = 8
"""How deep a folder is searched for transcripts; levels. Below a home Codex has 6, and gptme's runs have 7."""

LOCATE_FILES = 100_000
"""Transcripts that one search reads; files. It takes 5 minutes; one user reported 40,000 on one machine."""

LOCATE_POINTER_BYTES = 8_192
"""How much of a pointer file is read; bytes. It holds one path, and PATH_MAX is 4,096."""

LOCATE_WINDOW_S = 60
"""How long after a run's start its transcript begins at the latest, if only folder and time decide; seconds."""

LOCATE_CLAIMS = 20
"""Candidates that are listed for one session. If there are more, narrow the search."""

LOCATE_HASHED_BYTES = 4 * 1024 * 1024 * 1024
"""How much is hashed to find transcripts that were moved; bytes. It takes 10 s."""

CHANGE_REVISIONS = 100
"""Grades of one session up to which a `last_wins` rule is tried before a change of rule. Each costs a settlement."""

HISTORY_VIEWS = 256
"""Sessions of which an open ledger keeps the folded view. A busy runner has dozens; others are folded again."""

HISTORY_VIEW_BYTES = 128 * 1024 * 1024
"""Memory of the cached views, approximately; bytes. A view of 10,000 items takes 10 MB; the last one is always kept."""

HISTORY_READY_ITEMS = 256
"""Items of a history that an event loop reads itself; an answer by a thread takes longer."""

HISTORY_READY_BYTES = 256 * 1024
"""JSON of a history that an event loop reads itself; bytes. It takes less than a millisecond."""

HISTORY_WRITTEN_BYTES = 64 * 1024
"""Size of the last appends to histories that are kept, to fold them without a read; bytes.

It takes a millisecond or two.
"""

HISTORY_ATTEMPTS = 100
"""How often a pop is retried because another writer was faster. Each time another write succeeded."""

HISTORY_SENDS = 3
"""How often an append of a history with an unknown outcome is sent. In practice the second outcome is known."""

SESSION_THREADS = 32
"""Threads that execute the calls of the sessions of one process.

They mostly wait for a commit, which serves them all.
"""
