"""The page that shows the table, and the table in it."""

from __future__ import annotations

from tests.faults.support import ROOT

PAGE = ROOT / "docs" / "explanation" / "side-by-side.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def rows() -> list[list[str]]:
    """Return the rows of the table that the page shows, its heading first."""
    text = PAGE.read_text("utf-8")
    lines = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def write(table: str) -> None:
    """Put a table on the page, in the place of the one that it shows."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", "utf-8")
