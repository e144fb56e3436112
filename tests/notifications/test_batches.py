"""Which notices make the next message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from service.notifications.batches import Form, Pending, next_batch
from service.notifications.topics import Severity

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def pending(
    id_: int,
    subject: str = "job/a",
    topic: str = "job_failed",
    *,
    page: bool = False,
    until: datetime | None = None,
) -> Pending:
    severity = Severity.PAGE if page else Severity.ERROR
    return Pending(id_, topic, severity, subject, until or NOW, held=until is not None)


def test_the_oldest_goes_first_and_alone() -> None:
    batch = next_batch([pending(1), pending(2, "job/b")], NOW)
    assert batch is not None
    assert (batch.form, batch.notices, batch.subject) == (Form.SINGLE, (1,), "job/a")


def test_a_subject_whose_message_is_not_through_waits_and_others_do_not() -> None:
    batch = next_batch([pending(1), pending(2, "job/b")], NOW, busy={"job/a"})
    assert batch is not None
    assert batch.notices == (2,)
    assert next_batch([pending(1)], NOW, busy={"job/a"}) is None


def test_a_page_goes_first_and_takes_along_what_is_still_held_about_its_subject() -> None:
    waiting = [
        pending(1, "job/b"),
        pending(2, "job/a", "job_started", until=LATER),
        pending(3, "job/a", page=True),
    ]
    batch = next_batch(waiting, NOW)
    assert batch is not None
    assert (batch.form, batch.notices, batch.severity) == (Form.NEWS, (2, 3), Severity.PAGE)


def test_many_of_one_kind_become_one() -> None:
    waiting = [pending(n, f"job/{n}") for n in range(1, 8)] + [pending(8, "job/x", "job_started")]
    batch = next_batch(waiting, NOW, storm=5)
    assert batch is not None
    assert (batch.form, batch.notices, batch.topic) == (Form.STORM, (1, 2, 3, 4, 5, 6, 7), "job_failed")


def test_a_topic_that_had_its_share_is_collected_while_others_go_on() -> None:
    waiting = [pending(1, "job/a"), pending(2, "job/b", "job_started")]
    batch = next_batch(waiting, NOW, stormy={"job_failed": LATER})
    assert batch is not None
    assert batch.notices == (2,)


def test_a_digest_holds_what_its_stretch_collected_and_not_what_waits_for_the_next() -> None:
    waiting = [
        pending(1, "job/a", until=NOW),
        pending(2, "job/b", "job_started", until=NOW),
        pending(3, "job/a", until=LATER),
    ]
    batch = next_batch(waiting, NOW)
    assert batch is not None
    assert (batch.form, batch.notices) == (Form.DIGEST, (1, 2))
    assert next_batch(waiting[2:], NOW) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["job/a", "job/b", "job/c"]),
            st.sampled_from(["job_failed", "job_started"]),
            st.booleans(),
            st.sampled_from([None, NOW, LATER]),
        ),
        max_size=30,
    ),
    st.integers(min_value=2, max_value=6),
)
def test_each_notice_is_in_one_message_and_a_subjects_are_in_order(
    drawn: list[tuple[str, str, bool, datetime | None]], storm: int
) -> None:
    left = [
        pending(n, subject, topic, page=page, until=None if page else until)
        for n, (subject, topic, page, until) in enumerate(drawn, start=1)
    ]
    subjects = {one.id: one.subject for one in left}
    sent: list[int] = []
    for _ in range(len(left)):
        batch = next_batch(left, LATER, storm=storm)
        if batch is None:
            break
        assert list(batch.notices) == sorted(batch.notices)
        sent += batch.notices
        left = [one for one in left if one.id not in batch.notices]
    assert left == []
    assert sorted(sent) == sorted(subjects)
    for subject in set(subjects.values()):
        of_subject = [n for n in sent if subjects[n] == subject]
        assert of_subject == sorted(of_subject)
