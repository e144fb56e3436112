"""In which order jobs that want capacity are looked at: by priority, then projects under their share, then
age. Pure.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

from service.jobs.model import Job


class FairQueue:
    """The jobs of one look at the market. `use` is what each project has now, in GPUs; `weights` its share
    against the others, 1 where none is given. What is planned on the way counts.
    """

    def __init__(self, jobs: Iterable[Job], use: Mapping[str, float], weights: Mapping[str, float]) -> None:
        self._use = dict(use)
        self._weights = weights
        self._waiting: dict[int, dict[str, deque[Job]]] = defaultdict(lambda: defaultdict(deque))
        for job in jobs:
            self._waiting[job.priority][job.project_id].append(job)
        projects = {project for queues in self._waiting.values() for project in queues}
        self._all = sum(self._weight(project) for project in projects | set(self._use))

    def __iter__(self) -> Iterator[Job]:
        """Each job once."""
        for priority in sorted(self._waiting, reverse=True):
            queues = self._waiting[priority]
            while queues:
                project = min(queues, key=lambda name: (self._is_over(name), *_age(queues[name][0])))
                job = queues[project].popleft()
                if not queues[project]:
                    del queues[project]
                yield job

    def note_planned(self, project_id: str, gpus: float) -> None:
        """A project got something."""
        self._use[project_id] = self._use.get(project_id, 0.0) + gpus

    def _is_over(self, project_id: str) -> bool:
        """Whether a project has more of what is in use than its share."""
        total = sum(self._use.values())
        if not total:
            return False
        return self._use.get(project_id, 0.0) / total > self._weight(project_id) / self._all + 1e-9

    def _weight(self, project_id: str) -> float:
        return self._weights.get(project_id, 1.0)


def _age(job: Job) -> tuple[float, str]:
    return (job.submitted_at.timestamp(), job.id)
