"""The book of offers follows the database: changes, late ones, what is gone, and a clock that was set."""

from __future__ import annotations

from datetime import timedelta

from sqlmodel import Session

from service.market.book import OfferBook
from service.market.model import OfferRow
from service.market.offers import offer_id, to_values
from tests.loops.bench import Bench, offer

ONE, OTHER = offer("aws", 10.0), offer("gcp", 11.0)


def prices(bench: Bench, book: OfferBook) -> dict[str, float | None]:
    bench.database.read(lambda session: book.refresh(session, bench.clock.now()))
    return {one.key.account: one.price for one in book.shelves.offers}


def write(bench: Bench, account: str, price: float, age: timedelta = timedelta(0)) -> None:
    def change(session: Session) -> None:
        values = to_values(offer(account, price), bench.clock.now() - age)
        row = session.get(OfferRow, values["id"]) or OfferRow(**values)
        row.sqlmodel_update(values)
        session.add(row)

    bench.database.write(change)


def test_a_changed_price_is_taken_in_though_it_was_written_after_a_later_one(bench: Bench) -> None:
    book = OfferBook()
    assert prices(bench, book) == {"aws": 10.0, "gcp": 11.0, "azure": 12.0}
    bench.clock.advance(60)
    write(bench, "gcp", 8.0)
    assert prices(bench, book)["gcp"] == 8.0
    write(bench, "aws", 9.0, age=timedelta(seconds=5))
    assert prices(bench, book)["aws"] == 9.0


def test_what_is_gone_is_dropped(bench: Bench) -> None:
    book = OfferBook()
    prices(bench, book)
    bench.database.write(lambda session: session.delete(session.get_one(OfferRow, offer_id(ONE.key))))
    assert set(prices(bench, book)) == {"gcp", "azure"}


def test_after_a_clock_was_set_back_changes_are_still_seen(bench: Bench) -> None:
    book = OfferBook()
    write(bench, "gcp", 7.0, age=-timedelta(hours=1))
    assert prices(bench, book)["gcp"] == 7.0
    write(bench, "aws", 6.0)
    assert prices(bench, book)["aws"] == 6.0
