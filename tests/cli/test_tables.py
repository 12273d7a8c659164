from __future__ import annotations

import pytest

from rightful.cli.output import tables


def test_a_table_has_its_headings_units_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show_table(
        {"arm": "", "mean": "0 to 1"}, [("lessons/git.md", "0.75"), ("x", "1.00")], title="Arms", note="of 2 runs"
    )

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["Arms"]
    assert lines[2:4] == [["mean"], ["arm", "0", "to", "1"]]
    assert ["lessons/git.md", "0.75"] in lines
    assert lines[-1] == ["of", "2", "runs"]


def test_numbers_stand_to_the_right_below_their_unit(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show_table({"arm": "", "n": "runs"}, [("x", "5"), ("y", "12345")])

    ends = [len(line.rstrip()) for line in capsys.readouterr().out.splitlines() if line.strip().endswith("5")]
    assert len(ends) == 2
    assert len(set(ends)) == 1


def test_cells_cannot_steer_a_terminal_and_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show_table({"arm": ""}, [("\x1b[31m[bold]x[/bold] :smile: \u202e",)])
    tables.show_facts({"arm": "\x1b[2J"})

    out = capsys.readouterr().out
    assert r"\x1b[31m[bold]x[/bold] :smile: \u202e" in out
    assert r"\x1b[2J" in out
    assert "\x1b" not in out


def test_no_cell_heading_title_or_fact_makes_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    forged, shown = "x\nwarning: y\r\tz\x1b[2J", r"x\nwarning: y\r\tz\x1b[2J"
    tables.show_table({"arm": "", "of\nz\x1b": "u"}, [(forged, forged)], title=forged, note=forged)
    tables.show_facts({forged: forged})

    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if shown in line] == [
        shown, f"{shown}  {shown}", shown, f"{shown}  {shown}"
    ]  # fmt: skip
    assert not any(line.strip().startswith(("warning", "z\x1b", "\x1b")) for line in lines)
    assert [line.split() for line in lines[2:5]] == [["of"], [r"z\x1b"], ["arm", "u"]]


def test_nothing_is_cut_however_long_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show_table({"arm": "", "n": "runs"}, [("x" * 500, "1")])

    assert capsys.readouterr().out.count("x") == 500


def test_wide_table_loses_spare_columns_and_then_the_middle_of_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = "/home/dev/lessons/quote-paths.md"

    def words(columns: int) -> list[list[str]]:
        monkeypatch.setenv("COLUMNS", str(columns))
        tables.show_table({"arm": "", "a": "u", "b": "u"}, [(arm, "11111111", "22222222")], drop=["b", "a"])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= columns
        return [line.split() for line in lines if "md" in line]

    assert words(55) == [[arm, "11111111", "22222222"]]
    assert words(54) == [["/home/dev/lesso…/quote-paths.md", "11111111", "22222222"]]
    assert words(43) == [["/hom…/quote-paths.md", "11111111", "22222222"]]
    assert words(42) == [["/home/dev/les…/quote-paths.md", "11111111"]]
    assert words(33) == [["/hom…/quote-paths.md", "11111111"]]
    assert words(32) == [["/home/dev/les…/quote-paths.md"]]


def test_names_that_would_look_alike_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    tables.show_table({"arm": ""}, [("/home/dev/a/quote-paths.md",), ("/home/dev/b/quote-paths.md",)])

    out = "".join(line.strip() for line in capsys.readouterr().out.splitlines())
    assert "…" not in out
    assert "/home/dev/a/quote-paths.md" in out


def test_name_is_shortened_in_its_middle_and_keeps_its_last_part() -> None:
    assert tables.shortened("/home/dev/lessons/quote-paths.md", 25) == "/home/dev…/quote-paths.md"
    assert tables.shortened("/home/dev/lessons/never-retry-blindly.md", 20) == "/home/d…y-blindly.md"
    assert tables.shortened("x" * 20, 20) == "x" * 20
    assert tables.shortened("x" * 40, 20) == "x" * 7 + "…" + "x" * 12


def test_facts_stand_each_below_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show_facts({"events": 3, "on disk": "5 KiB"})

    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["events", "3"],
        ["on", "disk", "5", "KiB"],
    ]


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with tables.progress("folding", 10, "rows") as advance:
        advance(4)
        advance()

    assert capsys.readouterr() == ("", "")


def test_progress_goes_to_stderr_and_says_what_how_far_and_of_what(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    with tables.progress("folding \x1b[2J", 10, "rows") as advance:
        advance(10)

    out, err = capsys.readouterr()
    assert out == ""
    assert r"folding \x1b[2J" in err
    assert "10/10" in err
    assert "rows" in err


def test_a_table_that_is_too_wide_becomes_cards_that_leave_nothing_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, session = "/home/dev/.claude/projects/-home-dev-my-proj/7fbe4341.jsonl", "claude-code:7fbe4341-0000-4000-8000"

    def lines(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        names = {
            "transcript": "",
            "session": "",
            "line": "number",
            "read\nof it": "bytes",
            "verdict": "",
            "why": "",
            "spare": "",
        }
        rows = [
            (path, session, "7", "11", "owner", "", "x" * 9),
            ("b", "c:d", "8", "2", "none", "nothing joins it to a transcript that was found here", ""),
        ]
        tables.show_table(names, rows, title="Found", note="of 2", drop=["spare"])
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    assert [line.split() for line in lines(200) if "owner" in line] == [[path, session, "7", "11", "owner", "x" * 9]]
    assert lines(80) == [
        "", "Found", "",
        f"transcript: {path}",
        f"  session: {session}   line: 7",
        "  read of it (bytes): 11   verdict: owner   spare: xxxxxxxxx", "",
        "transcript: b",
        "  session: c:d   line: 8   read of it (bytes): 2   verdict: none",
        "  why: nothing joins it to a transcript that was found here", "",
        "of 2",
    ]  # fmt: skip


def test_a_sentence_in_a_table_makes_no_line_longer_than_what_reads_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = " ".join(["nothing joins it"] * 20)
    tables.show_table({"event": "", "why": ""}, [("#1", why), ("#2", "x" * 300)])

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    said = [line.removeprefix("#1").strip() for line in lines if "nothing" in line]
    assert " ".join(said) == why
    assert len(said) == 4
    assert max(map(len, said)) <= 100
    assert any("x" * 300 in line for line in lines), "no word is cut"

    monkeypatch.setenv("COLUMNS", "80")
    tables.show_table({"event": "", "reason": "", "why": ""}, [("#1", "it is late", why)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert ["event", "reason", "why"] in [line.split() for line in lines]
