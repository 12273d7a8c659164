"""Logs, and what an explanation says of a grade or an exposure of each: session, events, state, reason."""

from __future__ import annotations

from tests.projections.telling import exposed, graded, linked, mentioned, opened, retracted, started
from tests.strategies import Wire

A, GRADE = exposed("t:a", "x"), graded("t:a", 0.8)

GRADES: list[tuple[str, list[Wire], str, str]] = [
    (
        "t:a",
        [A, GRADE],
        "credited",
        "It paid 1 arm of exposure #1.",
    ),
    (
        "w:a",
        [A, linked("w:a", "t:a"), graded("w:a", 0.8)],
        "credited",
        "It paid 1 arm of exposure #1, shown to t:a of the same run.",
    ),
    (
        "w:a",
        [A, graded("w:a", 0.8, exposure_session="t:a")],
        "credited",
        "It paid 1 arm of exposure #1, shown to t:a, which the grade names as its `exposure_session`.",
    ),
    (
        "t:a/b",
        [exposed("t:a_b", "x", alias=True), graded("t:a/b", 0.8)],
        "credited",
        (
            "It paid 1 arm of exposure #1, shown to t:a_b: the only name that fits as a sanitised form, and no name "
            "fits exactly."
        ),
    ),
    (
        "t:a",
        [GRADE],
        "unmatched",
        ("No exposure is recorded for t:a or another name of its run up to #1, and no sanitised form of it is known."),
    ),
    (
        "w:a",
        [graded("w:a", 0.8, exposure_session="t:a")],
        "unmatched",
        (
            "No exposure is recorded for the `exposure_session` that it names, t:a, up to #1, and no sanitised "
            "form of it is known."
        ),
    ),
    (
        "t:a_b",
        [graded("t:a_b", 0.8, alias=True)],
        "unmatched",
        (
            "No exposure is recorded for t:a_b or another name of its run up to #1: it is a sanitised form, "
            "which matches no name exactly, and no name in the ledger fits it."
        ),
    ),
    (
        "t:a",
        [exposed("t:a", withheld=("x", "y")), GRADE],
        "empty",
        (
            "Exposure #1 showed no arm (2 arms withheld), so there is no arm to pay. Such a session can serve as a "
            "control."
        ),
    ),
    (
        "t:a",
        [A, GRADE, graded("w:a", 0.4, exposure_session="t:a")],
        "ambiguous",
        (
            "Its grader also graded the same run under another name: judge/overall seq 1 (#3) of w:a. Nothing "
            "records which one counts."
        ),
    ),
    (
        "t:a_b",
        [exposed("t:a/b", "x"), exposed("t:a.b", "y"), graded("t:a_b", 0.8)],
        "ambiguous",
        "No exposure fits t:a_b exactly, and more than one name fits as a sanitised form: t:a/b and t:a.b.",
    ),
    (
        "t:a",
        [A, GRADE, started("t:a", "n1"), started("t:a", "n2")],
        "ambiguous",
        (
            "It is not known which run t:a belongs to: t:a started twice, with nonce 'n1' (#3) and with 'n2' "
            "(#4), so two runs used the name."
        ),
    ),
    (
        "t:a",
        [A, GRADE, linked("t:a", "u:n"), linked("t:b", "u:n")],
        "ambiguous",
        ("It is not known which run t:a belongs to: t:a and t:b are linked into one run and each is a run's own name."),
    ),
    (
        "t:a",
        [A, GRADE, linked("t:a", "u:n"), linked("t:a", "u:m")],
        "ambiguous",
        (
            "It is not known which run t:a belongs to: u:n and u:m are both claimed to be native names of t:a, "
            "and a run has one."
        ),
    ),
    (
        "t:a",
        [A, GRADE, linked("t:a", "t:b"), linked("t:b", "t:a")],
        "ambiguous",
        (
            "It is not known which run t:a belongs to: the links form a cycle, so none of t:a and t:b is the run's "
            "own name."
        ),
    ),
    (
        "t:a",
        [A, GRADE, graded("t:a", 0.4)],
        "conflicting",
        (
            "judge/overall seq 1 (#2) has the same `seq` but different content, so it is not known which of the two "
            "counts."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, by="one"), graded("t:a", 0.4, by="two")],
        "rival",
        "It and one/overall seq 1 (#2) are from graders of the same rank; it is not known which of the two counts.",
    ),
    (
        "t:a",
        [A, GRADE, retracted("t:a", 2)],
        "retracted",
        "judge/overall seq 1 (#2) was retracted by judge/overall seq 2 (#3).",
    ),
    (
        "t:a",
        [exposed("t:a", "x", at=385), graded("t:a", 0.8, at=200)],
        "late-only",
        (
            "Every exposure of its target came after it: the first, exposure #1, is stamped 3 m 5 s later. An arm "
            "shown after a grade cannot have earned it."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", outcome="odd")],
        "unmapped",
        (
            "It has no reward, only the outcome 'odd', and the policy does not map that word: only productive, "
            "noop, failed and violated_policy."
        ),
    ),
    (
        "t:a",
        [A, GRADE, opened(through="1970-01-01T00:05:00Z", arms={"x": {"alpha": 2.0, "beta": 1.0, "n": 1}})],
        "in-balance",
        (
            "It is of 1970-01-01T00:03:20Z, and the opening balance of bandit.json (#3) covers everything through "
            "1970-01-01T00:05:00Z; paying it again would count it twice."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, rubric="tone")],
        "recorded-only",
        (
            "judge/tone is recorded and never pays under this policy: it names no such grader; it pays from "
            "human/overall, credit/overall, session-records/overall and */overall."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, seq=3), graded("t:a", 0.4, seq=2)],
        "superseded",
        "judge/overall seq 3 (#2) of the same grader replaces it.",
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, by="human"), graded("t:a", 0.4)],
        "outranked",
        (
            "human/overall seq 1 (#2) grades the same run, and the policy ranks that grader before "
            "judge/overall, so it pays alone."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, by="one"), retracted("t:a", 2)],
        "stood-aside",
        "The grader retracted its grade, so one/overall seq 1 (#2) counts instead.",
    ),
]

EXPOSURES: list[tuple[str, list[Wire], str, str]] = [
    (
        "t:a",
        [A, GRADE],
        "paid",
        "judge/overall seq 1 (#2) paid its arms.",
    ),
    (
        "t:a",
        [exposed("t:a", "x", at=900, at_basis="file"), GRADE],
        "paid",
        "judge/overall seq 1 (#2) paid its arms, but its only time is that of its file, an upper bound.",
    ),
    (
        "t:a",
        [A],
        "pending",
        "It waits for a grade: none of t:a is recorded.",
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, rubric="tone")],
        "pending",
        "It waits for a grade: of the 1 grade that its run has, this policy pays from none.",
    ),
    (
        "t:a",
        [exposed("t:a", "x", at=385), GRADE],
        "late",
        "It came 3 m 5 s after the grade judge/overall seq 1 (#2), so it cannot have earned that grade.",
    ),
    (
        "t:a",
        [exposed("t:a", withheld=("x",)), GRADE],
        "nothing-shown",
        (
            "It only withheld 1 arm, so there is no arm to pay; its run is graded by judge/overall seq 1 (#2). "
            "A withheld arm is never credited."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", outcome="odd")],
        "unpaid",
        (
            "The grade that reaches it, judge/overall seq 1 (#2), pays no arm: unmapped (the policy assigns no value "
            "to its outcome word)."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, exposure_session="t:b")],
        "other-name",
        (
            "The grade of its run, judge/overall seq 1 (#2), names t:b as the session that earned it, and only that "
            "session is paid."
        ),
    ),
    (
        "t:a",
        [A, started("t:a", "n1"), started("t:a", "n2")],
        "unclear",
        (
            "It is not known which run t:a belongs to: t:a started twice, with nonce 'n1' (#2) and with 'n2' "
            "(#3), so two runs used the name."
        ),
    ),
    (
        "t:a_b",
        [exposed("t:a_b", "x", alias=True), mentioned("t:a/b"), mentioned("t:a.b")],
        "unclear",
        (
            "It was read from a file whose name is only a sanitised form of a session id (t:a_b), and more than "
            "one name fits it: t:a/b and t:a.b. It is not known which session it belongs to."
        ),
    ),
    (
        "t:a_b",
        [exposed("t:a_b", "x", alias=True)],
        "unclear",
        (
            "It was read from a file whose name is only a sanitised form of a session id (t:a_b), and no name in the "
            "ledger fits it. A grade under the full name would reach it."
        ),
    ),
    (
        "t:a_b",
        [exposed("t:a_b", "x", alias=True), exposed("t:a/b", "y"), graded("t:a/b", 1.0)],
        "shadowed",
        (
            "It was read from a file whose name is only a sanitised form of a session id (t:a_b); t:a/b, the "
            "session that it fits, has exposures of its own (#2), and those count."
        ),
    ),
    (
        "t:a",
        [exposed("t:a", "x", alias=True), exposed("t:a", "y"), graded("t:a", 1.0)],
        "shadowed",
        (
            "It was read from a file whose name is only a sanitised form of a session id (t:a); the session with "
            "exactly that name has exposures of its own (#2), and those count."
        ),
    ),
    (
        "t:a",
        [A, GRADE, graded("t:a", 0.4)],
        "unpaid",
        (
            "The grade that reaches it, judge/overall seq 1 (#3), pays no arm: conflicting (judge/overall seq 1 (#2) "
            "has the same `seq` but different content; a grade with the next `seq` settles it)."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, by="one"), graded("t:a", 0.4, by="two")],
        "unpaid",
        (
            "The grade that reaches it, one/overall seq 1 (#2), pays no arm: conflicting (two/overall seq 1 (#3) is "
            "from a grader of the same rank; the policy's `graders` can rank one of them first)."
        ),
    ),
    (
        "t:a",
        [A, graded("t:a", 0.8, key="one"), graded("t:a", 0.4, key="one")],
        "unpaid",
        (
            "The grade that reaches it, judge/overall seq 1 (#3), pays no arm: conflicting (its id is in conflict; "
            "`event.withdrawn` settles it)."
        ),
    ),
    (
        "t:a",
        [A, graded("t:b", 0.1, key="one"), graded("t:a", 0.8, key="one"), graded("t:a", 0.8, at=250)],
        "unpaid",
        (
            "The grade that reaches it, judge/overall seq 1 (#4), pays no arm: conflicting (the id of judge/overall "
            "seq 1 (#3) of the same run is in conflict; `event.withdrawn` settles it)."
        ),
    ),
    (
        "t:a",
        [A, GRADE, graded("w:a", 0.4, exposure_session="t:a")],
        "unpaid",
        (
            "The grades of 2 runs reach it: judge/overall seq 1 (#2) of t:a and judge/overall seq 1 (#3) of w:a. "
            "Only one run may pay for an exposure, and nothing records which."
        ),
    ),
]
