"""Spool → store, exactly once: what the recorder does during a sweep and ``runner.sync`` does later.

Results of one sweep are filed by one process at a time (a lock in the sweep folder). Who files leaves its token
there: a filer that finds another's asks the store again which runs exist.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from runner.record import spool
from runner.record.location import TrackingUnavailable
from runner.record.mlflow_store import MlflowStore
from runner.result.document import FILE_NAME, DocumentError, read, write_text
from runner.result.model import Result, Status

LOCK_FILE = ".filing.lock"
TOKEN_FILE = ".filing"


@dataclass
class Sent:
    """What one round of filing came to."""

    run_ids: list[str] = field(default_factory=list)
    left: int = 0
    """Results still to be filed."""
    problem: str = ""
    """Why some are left; one line, empty when nothing went wrong."""


class Filer:
    """Files results of one store's sweeps. Nothing here raises: a problem is part of what is returned."""

    def __init__(self, store: MlflowStore) -> None:
        self.store = store
        self._token = uuid.uuid4().hex

    def results(
        self,
        sweep_folder: Path,
        folders: Sequence[Path],
        swept: Sequence[str] = (),
        budget_s: float | None = None,
        wait_s: float = 60.0,
    ) -> Sent:
        """Files the results in ``folders`` that are not filed yet; stops when ``budget_s`` has passed since the store
        was opened, after one result at least."""
        sent = Sent()
        waiting = [folder for folder in folders if not spool.is_filed(folder)]
        sent.left = len(waiting)
        if not waiting:
            return sent
        with _problem_of(sent, sweep_folder, "results"):
            self.store.open()
            with FileLock(sweep_folder / LOCK_FILE, timeout=wait_s):
                self._notice_others(sweep_folder)
                begun = time.monotonic()
                for folder in waiting:
                    self._one(folder, swept, sent)
                    if budget_s is not None and time.monotonic() - begun > budget_s:
                        break
        return sent

    def summary(self, sweep_folder: Path, wait_s: float = 60.0) -> Sent:
        """Files the sweep's summary run with its report, once all its results are filed."""
        sent = Sent(left=1)
        if spool.is_filed(sweep_folder):
            return Sent([spool.filed_run(sweep_folder)])
        with _problem_of(sent, sweep_folder, "summary"):
            sweep = spool.read_sweep(sweep_folder)
            self.store.open()
            results, runs = gather(sweep_folder, sweep.sweep_id)
            with FileLock(sweep_folder / LOCK_FILE, timeout=wait_s):
                self._notice_others(sweep_folder)
                report = sweep_folder / spool.REPORT_FOLDER
                run_id = self.store.file_summary(sweep, results, runs, report)
                spool.mark_filed(sweep_folder, self.store.location.shown, run_id, sweep.sweep_id)
                sent.run_ids, sent.left = [run_id], 0
        return sent

    def _one(self, folder: Path, swept: Sequence[str], sent: Sent) -> None:
        """Files one result. A document that cannot be read stops nobody else's."""
        if spool.is_filed(folder):  # by another process, while we waited for the lock
            sent.left -= 1
            return
        try:
            result = read(folder / FILE_NAME)
        except DocumentError as error:
            sent.problem = str(error)
            return
        run_id = self.store.file(result, folder, swept)
        spool.mark_filed(folder, self.store.location.shown, run_id, result.id)
        sent.run_ids.append(run_id)
        sent.left -= 1

    def _notice_others(self, sweep_folder: Path) -> None:
        token = sweep_folder / TOKEN_FILE
        try:
            ours = token.read_text(encoding="utf-8") == self._token
        except FileNotFoundError:
            ours = False
        if not ours:
            self.store.refresh()
            write_text(token, self._token)


@contextmanager
def _problem_of(sent: Sent, sweep_folder: Path, what: str) -> Iterator[None]:
    """Whatever keeps ``what`` from being filed becomes ``sent.problem``."""
    try:
        yield
    except Timeout:
        sent.problem = f"another process is filing the {what} of {sweep_folder}"
    except (TrackingUnavailable, DocumentError) as error:
        sent.problem = str(error)
    except OSError as error:
        sent.problem = f"cannot file the {what} of {sweep_folder}: {error.strerror or error}"


def slim(result: Result) -> Result:
    """The result without what only its file needs, so that a long sweep does not fill the memory. Of the config the
    tracking stays: it says how large a file of the summary may be."""
    kept = {key: value for key, value in result.config.items() if key == "tracking"}
    return dataclasses.replace(result, samples=[], events=[], config=kept)


def gather(sweep_folder: Path, sweep_id: str) -> tuple[list[Result], list[str]]:
    """All readable results of a sweep, slim, and the run ids of those that passed and are filed. Those that an earlier
    sweep left in the same folder are not its own."""
    results, runs = [], []
    for path in spool.results(sweep_folder):
        try:
            result = slim(read(path))
        except DocumentError:
            continue  # reported when it was to be filed
        if result.sweep_id != sweep_id:
            continue
        results.append(result)
        run_id = spool.filed_run(path.parent)
        if run_id and result.status is Status.PASSED:
            runs.append(run_id)
    return results, runs
