from __future__ import annotations

from tests.projections.fake import FakeLog
from tests.projections.telling import exposed, graded, retracted, told
from tests.reports.explaining import explained


def test_a_retraction_in_doubt_is_a_rival_and_says_so() -> None:
    """Its id says two things, so it took nothing back, and its grader stands beside the other of its rank."""
    log = FakeLog()
    outcomes = log.append(
        [
            told("exposure.recorded", "t:a", 100, {"by": "human", "key": "shared", "arms": []}),
            graded("t:a", 1.0, by="credit"),
            retracted("t:a", 1, by="human", key="shared"),
            exposed("t:a", "x"),
        ]
    )
    assert outcomes == ["appended", "appended", "conflict", "appended"]

    [grade] = [one for one in explained(log, "t:a", graders=["*/overall"]).grades if one.position == 2]

    assert grade.state == "conflicting"
    assert "#3" in grade.reason
