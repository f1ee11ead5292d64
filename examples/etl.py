"""A year of sales, column by column: large data that is passed by reference, and of which little is saved.

    python examples/etl.py                   24 million rows, 670 MB of columns
    python examples/etl.py 5000              five thousand rows a month

    for each month     extract ──▶ clean ──┬──▶ shops ─────┐
                       (saved)             ├──▶ hours ─────┤
                                           ├──▶ largest ───┼──▶ publish
                                           └──▶ goods ─────┘
    categories (put) ──────────────────────────▲

A table is a dict of refs, one for each column. So who needs two columns loads two, and who replaces one passes the
others on. A column is in memory once, however many tasks read it, and none of them copies it.

Only what came from outside is saved: the extracted columns, in the background, while others compute. `publish` changes
the world outside and waits for them. Kill the program at any moment and start it again: it goes on, and the warehouse
has each figure once.

The source is a folder for each month with a file for each column, as a data lake has them. They are made up when the
program is first started. At the end it shows which worker did what when, a letter for each task.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onceflow
from onceflow import Ref, current, put, run, task, workflow
from onceflow.runs import list_attempts, size

Column = np.ndarray[Any, np.dtype[Any]]
Figures = dict[str, int]
"""What was asked for → cents."""

LAKE = Path("lake")
WAREHOUSE = Path("warehouse.db")
MONTHS = [f"2026-{month:02}" for month in range(1, 13)]
SHOPS = 40
PRODUCTS = 100_000
CATEGORIES = ["tea", "coffee", "cups", "books"]


@dataclass(frozen=True)
class Table:
    month: str
    columns: dict[str, Ref[Column]]

    def __getitem__(self, name: str) -> Column:
        return self.columns[name].get()

    def replace(self, **columns: Column) -> Table:
        """The same table with some columns changed or added. Those are put; all others are passed on as they are."""
        return Table(self.month, {**self.columns, **{name: put(column) for name, column in columns.items()}})


# Somebody may correct a file tomorrow, so this is not deterministic; nobody can see that it was read, so it has no
# effect. Each column is saved, while others are already being read.
@task(effect="none", retry=3)
def extract(month: str) -> Table:
    return Table(month, {file.stem: put(np.load(file)) for file in sorted((LAKE / month).glob("*.npy"))})


# Can be computed again out of what is saved, so it is not saved. Two of six columns are new.
@task.pure
def clean(table: Table) -> Table:
    pieces = np.clip(table["pieces"], 0, None)  # a new array: the one that comes from another task is read-only
    return table.replace(pieces=pieces, revenue=pieces * table["cents"])


@task.pure
def shops(table: Table) -> Figures:
    revenue = np.bincount(table["shop"], weights=table["revenue"], minlength=SHOPS)
    return {f"shop {shop}": int(cents) for shop, cents in enumerate(revenue)}


@task.pure
def goods(table: Table, categories: Ref[Column]) -> Figures:
    sold = categories.get()[table["product"]]
    revenue = np.bincount(sold, weights=table["revenue"], minlength=len(CATEGORIES))
    return dict(zip(CATEGORIES, map(int, revenue), strict=True))


@task.pure
def hours(table: Table) -> Figures:
    revenue = np.bincount(table["hour"], weights=table["revenue"], minlength=24)
    return {f"hour {hour}": int(cents) for hour, cents in enumerate(revenue)}


@task.pure
def largest(table: Table) -> Figures:
    return {"largest sale": int(table["revenue"].max())}


# Irrevocable: it waits until all it builds on is saved. To write the same figures again changes nothing.
@task(retry=3)
def publish(months: dict[str, list[Figures]]) -> str:
    rows = [(month, *item) for month, parts in months.items() for figures in parts for item in figures.items()]
    with closing(sqlite3.connect(WAREHOUSE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS figures (month, what, cents, key, PRIMARY KEY (month, what))")
        key = current().key
        database.executemany("INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?)", [(*row, key) for row in rows])
    return f"{len(rows)} figures of {len(months)} months are in {WAREHOUSE}"


@workflow
def year(months: list[str], categories: Ref[Column]) -> str:
    figures = {}
    for month in months:
        table = clean.bind(extract.bind(month))
        figures[month] = [shops.bind(table), hours.bind(table), largest.bind(table), goods.bind(table, categories)]
    return publish.bind(figures)


# -- around it: a source, and what there is to see --------------------------------------------------------------------


def make_up(month: str, rows: int) -> None:
    """Files for a month, unless they are there."""
    folder = LAKE / month
    if folder.exists():
        return
    chance = np.random.default_rng(MONTHS.index(month))
    aside = folder.with_suffix(".new")
    aside.mkdir(parents=True, exist_ok=True)
    np.save(aside / "shop.npy", chance.integers(SHOPS, size=rows, dtype=np.int32))
    np.save(aside / "product.npy", chance.integers(PRODUCTS, size=rows, dtype=np.int32))
    np.save(aside / "hour.npy", chance.binomial(23, 0.6, size=rows).astype(np.int32))
    np.save(aside / "pieces.npy", chance.integers(-1, 5, size=rows, dtype=np.int32))
    np.save(aside / "cents.npy", chance.integers(100, 10_000, size=rows, dtype=np.int32))
    aside.rename(folder)


def show_work(name: str, width: int = 100) -> None:
    """A line for each worker, from the beginning of the run to its end."""
    attempts = [attempt for attempt in list_attempts(name) if attempt.seconds is not None]
    begin = min(attempt.started for attempt in attempts)
    whole = max(attempt.started + attempt.seconds for attempt in attempts) - begin
    lines: dict[int, list[str]] = defaultdict(lambda: [" "] * width)
    for attempt in attempts:
        first = int((attempt.started - begin) / whole * width)
        last = int((attempt.started - begin + attempt.seconds) / whole * width)
        lines[attempt.worker][first : max(first + 1, last)] = attempt.task[0] * max(1, last - first)
    for worker, line in sorted(lines.items()):
        print(f"  {worker:7} {''.join(line)[:width]}")
    print(f"  {'':7} {len(attempts)} tasks in {whole:.1f} seconds\n")


def show_figures() -> None:
    with closing(sqlite3.connect(WAREHOUSE)) as database:
        for what in ["tea", "hour 14", "largest sale"]:
            found = database.execute("SELECT cents FROM figures WHERE what = ? ORDER BY month", [what]).fetchall()
            print(f"  {what:12} {max(found)[0] / 100:12,.2f} euros at most in a month")
    print()


def main(rows: int = 2_000_000) -> None:
    onceflow.configure(preload=["numpy"], progress=sys.stderr.isatty())
    for month in MONTHS:
        make_up(month, rows)
    categories = put(np.random.default_rng(0).integers(len(CATEGORIES), size=PRODUCTS))
    name = f"sales-2026-{rows}"
    print(run(year.bind(MONTHS, categories), name=name), end="\n\n")
    show_figures()
    show_work(name)
    made = 7 * 4 * rows * len(MONTHS)  # five columns extracted and two computed, 32 bits a row
    print(f"{made / 1e6:,.1f} MB of columns were made, {size(name) / 1e6:,.1f} MB saved (with the categories)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
