"""What every recorder promises those who read."""

from __future__ import annotations

import pytest
from eventsourcing.dcb.api import DCBAppendCondition, DCBEvent, DCBQuery
from eventsourcing.persistence import IntegrityError
from tests.contracts.base import LONG, Opened, event, found, query, tagged

from rightful import limits
from rightful.storage.port import LedgerRecorder


class Reading(Opened):
    """Tags, types, sizes and pages."""

    @pytest.mark.parametrize(
        "tags",
        [
            [],
            [""],
            ["a", "a"],
            ["b", "a", "b"],
            ["Ωμέγα 🜁", "\0", "\n", " "],
            [LONG, LONG + "y", LONG + "z", LONG * 20],
        ],
        ids=["none", "empty", "double", "order", "unicode", "long"],
    )
    def test_tags_come_back_as_they_were_given_and_are_found(self, recorder: LedgerRecorder, tags: list[str]) -> None:
        recorder.append([DCBEvent(type="t", data=b"", tags=tags), event()])

        assert next(recorder.read()).event.tags == tags
        for tag in tags:
            assert found(recorder, tagged(tag)) == [1]
            assert found(recorder, tagged(tag, tag)) == [1]
            assert found(recorder, tagged(tag, "another")) == []
            with pytest.raises(IntegrityError):
                recorder.append([event()], DCBAppendCondition(tagged(tag)))

    def test_tags_that_differ_beyond_the_index_key_are_different(self, recorder: LedgerRecorder) -> None:
        recorder.append([event(tags=(LONG + "1",)), event(tags=(LONG + "2",)), event(tags=(LONG,))])

        assert found(recorder, tagged(LONG + "1")) == [1]
        assert found(recorder, tagged(LONG + "2")) == [2]
        assert found(recorder, tagged(LONG)) == [3]

    def test_a_tag_that_is_no_text_is_refused_and_harms_nothing(self, recorder: LedgerRecorder) -> None:
        with pytest.raises(UnicodeEncodeError):
            recorder.append([event(tags=("\ud800",))])
        with pytest.raises(UnicodeEncodeError):
            recorder.append([event(), event(tags=("\ud800",))])

        assert recorder.append([event()]) == 1

    def test_several_types_without_tags_are_one_query(self, recorder: LedgerRecorder) -> None:
        recorder.append([event(kind=f"kind{n % 10}") for n in range(50)])

        assert found(recorder, query((("kind3", "kind1", "kind7"), ()))) == [
            n + 1 for n in range(50) if n % 10 in {1, 3, 7}
        ]

    def test_items_of_any_shape_mix(self, recorder: LedgerRecorder) -> None:
        recorder.append(
            [
                event(kind="a", tags=("x",)),
                event(kind="b", tags=("x", "y")),
                event(kind="c", tags=("y",)),
                event(kind="d"),
                event(kind="a", tags=("z",)),
            ]
        )

        assert found(recorder, query((("d",), ()), ((), ("x", "y")), (("a",), ("z",)))) == [2, 4, 5]
        assert found(recorder, query((("a",), ()), ((), ("x",)))) == [1, 2, 5]
        assert found(recorder, query((("nothing",), ()), ((), ()))) == [1, 2, 3, 4, 5]
        assert found(recorder, query((("c", "d"), ("y",)))) == [3]
        assert found(recorder, query(((), ("x",)), ((), ("y",))), after=1, limit=1) == [2]

    def test_an_event_of_megabytes_comes_back_whole(self, recorder: LedgerRecorder) -> None:
        data = bytes(range(256)) * (20 * 1024)
        recorder.append([DCBEvent(type="big", data=data, tags=["big"])])

        assert next(recorder.read(tagged("big"))).event.data == data

    def test_a_read_ends_at_the_head_it_began_with(self, recorder: LedgerRecorder) -> None:
        recorder.append([event() for _ in range(limits.PAGE_ROWS + 10)])
        response = recorder.read()
        first = next(response)
        recorder.append([event("later")])

        positions = [first.position, *(each.position for each in response)]

        assert response.head == limits.PAGE_ROWS + 10
        assert positions == list(range(1, limits.PAGE_ROWS + 11))

    @pytest.mark.parametrize("wanted", [None, tagged("every"), query((("type",), ()))], ids=["all", "tag", "type"])
    def test_a_read_of_several_pages_is_complete(self, recorder: LedgerRecorder, wanted: DCBQuery | None) -> None:
        count = 2 * limits.PAGE_ROWS + 5
        recorder.append([event(tags=("every",)) for _ in range(count)])

        assert found(recorder, wanted) == list(range(1, count + 1))
        assert found(recorder, wanted, limit=limits.PAGE_ROWS + 1) == list(range(1, limits.PAGE_ROWS + 2))

    def test_a_rare_fit_among_many_that_do_not_is_found(self, recorder: LedgerRecorder) -> None:
        """The rarest tag is on all rows, so each is looked at, in more than one transaction."""
        count = 17 * limits.PAGE_ROWS
        recorder.append([event(kind="hay", tags=("all",)) for _ in range(count)])
        recorder.append([event(kind="needle", tags=("all",))])

        response = recorder.read(query((("needle",), ("all",))))
        assert [each.position for each in response] == [count + 1]
        assert response.head == count + 1

    def test_with_a_limit_the_head_is_known_before_and_after_iterating(self, recorder: LedgerRecorder) -> None:
        recorder.append([event() for _ in range(5)])
        response = recorder.read(limit=3)

        assert response.head == 3
        assert [each.position for each in response] == [1, 2, 3]
        assert recorder.read(limit=3, after=5).head is None
        assert recorder.read(after=9).head == 5

    def test_tags_are_found_by_how_they_begin(self, recorder: LedgerRecorder) -> None:
        for tags in (["id:ab1", "session:x"], ["id:ab2", "id:b"], ["id:ab1"], [LONG * 20], []):
            recorder.append([DCBEvent(type="t", data=b"", tags=tags)])

        assert recorder.tags_like("id:ab", 10) == ["id:ab1", "id:ab2"]
        assert recorder.tags_like("id:", 2) == ["id:ab1", "id:ab2"]
        assert recorder.tags_like("id:b", 10) == ["id:b"]
        assert recorder.tags_like("id:c", 10) == []
        assert recorder.tags_like(LONG, 10) == []
