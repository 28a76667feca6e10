"""The MLflow store. The only file that imports MLflow, and only once a store is opened.

Runs are flat: one per result, one more per command with its summary (experiment ``sweeps``). Everything goes
through ``MlflowClient`` with explicit run ids, so no global state leaks between runs. A run is created RUNNING
and set to its final status as the last step: one that is found RUNNING was left half-way and is completed.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from runner.record import artifacts, database, fields, links, probe, removal
from runner.record.filed import Filed
from runner.record.location import Location, TrackingUnavailable
from runner.record.note import note
from runner.record.selection import Selection, queries
from runner.record.spool import Sweep, SweepStatus
from runner.result.clock import millis
from runner.result.model import Result

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SUMMARY_EXPERIMENT = "sweeps"
PARAMS_PER_BATCH = 100
METRICS_PER_BATCH = 800
RUNS_PER_PAGE = 1000
CREATE_TIMEOUT_S = 120.0
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Of this process; what the user has set wins. MLflow's own limits wait four minutes for a dead server."""


class MlflowStore:
    """One tracking store. Every method raises ``TrackingUnavailable`` when the store cannot be used."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._opened: MlflowClient | None = None
        self._experiments: dict[str, str] = {}
        self._known: dict[tuple[str, str], dict[str, Run]] = {}
        self._finished: set[str] = set()

    def open(self) -> None:
        """Connects, and sets up a SQLite or PostgreSQL database that is empty: once, however many processes try."""
        if self._opened is not None:
            return
        probe.check(self.location)
        with self._translated(), database.opened_alone(self.location.uri):
            client = _client(self.location)
            client.search_experiments(max_results=1)
            self._opened = client

    def refresh(self) -> None:
        """Forgets which runs exist: somebody else may have filed since."""
        self._known.clear()

    def file(self, result: Result, folder: Path, swept: Sequence[str] = ()) -> str:
        """Files one result and every file of its folder exactly once; the run's id.

        ``swept`` names the override keys that come first in the run's name.
        """
        with self._translated():
            experiment = self._experiment(result.kernel)
            known = self._runs(experiment, result.sweep_id, result.id)
            run = known.get(result.id)
            start, end = fields.times(result)
            if run is None:
                tags = fields.tags(result)
                if text := note(result):
                    tags["mlflow.note.content"] = text
                run = known[result.id] = self._client.create_run(
                    experiment, start or None, tags, fields.run_name(result, swept)
                )
            if run.info.run_id in self._finished:
                return str(run.info.run_id)
            self._log(run, fields.params(result), fields.metrics(result), end, fields.points(result))
            artifacts.log_result(self._repository(run), result, folder)
            return self._finish(run, fields.run_status(result), end)

    def file_summary(self, sweep: Sweep, results: Sequence[Result], run_ids: Sequence[str], report: Path) -> str:
        """Files the run of one command: its table and plots, counts by status and the link that compares its
        runs; the run's id. ``report`` is a folder, ``run_ids`` the runs of the results that passed."""
        with self._translated():
            experiment = self._experiment(SUMMARY_EXPERIMENT)
            known = self._runs(experiment, sweep.sweep_id, "")
            run = known.get(sweep.sweep_id)
            start, end = millis(sweep.started), millis(sweep.ended)
            if run is None:
                tags = self._summary_tags(sweep, results, run_ids, report)
                run = known[sweep.sweep_id] = self._client.create_run(
                    experiment, start or None, tags, _summary_name(sweep, results)
                )
            if run.info.run_id in self._finished:
                return str(run.info.run_id)
            metrics = fields.counts(r.status.value for r in results) | {"results": float(len(results))}
            if sweep.experiments:
                metrics["experiments"] = float(sweep.experiments)
            kernels = ", ".join(sorted({r.kernel for r in results}))
            self._log(run, {"kernel": kernels, "swept": ", ".join(sweep.swept)}, metrics, end)
            artifacts.log_summary(self._repository(run), results, report)
            status = SweepStatus.KILLED if sweep.status is SweepStatus.RUNNING else sweep.status
            return self._finish(run, status.value, end)

    def file_folder(self, experiment: str, run: Filed, folder: Path) -> str:
        """Files a run that holds no result, with every file of a folder; its id. Filed twice it is two runs."""
        with self._translated():
            made = self._client.create_run(self._experiment(experiment), run.started, run.tags, run.name)
            self._log(made, run.params, run.metrics, run.ended)
            for file in artifacts.of_folder(folder):
                self._repository(made).log_artifact(str(file.path), file.inside or None)
            return self._finish(made, run.status, run.ended)

    def search(self, selection: Selection) -> Iterator[list[Filed]]:
        """The runs that are meant, in batches by start and run id: for a server, which has no tables for us."""
        with self._translated():
            families = self._families(selection.kernels)
            # Each answer is in order; together they are when merged.
            answers = [self._found(families, query, selection) for query in queries(selection) if families]
            merged = heapq.merge(*answers, key=lambda run: (run.started, run.run_id))
            while found := list(itertools.islice(merged, RUNS_PER_PAGE)):
                yield found

    def run(self, run_id: str) -> Filed:
        """One run by its id."""
        with self._translated():
            return _filed(self._client.get_run(run_id))

    def download(self, run: Filed, name: str, folder: Path) -> Path | None:
        """One file of a run, brought into ``folder``; None where the run has none of that name."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        with self._translated():
            files: Any = get_artifact_repository(run.artifacts, tracking_uri=self.location.uri)
            if name not in {one.path for one in files.list_artifacts()}:
                return None
            return Path(files.download_artifacts(name, str(folder)))

    def tag(self, run_id: str, values: Mapping[str, str]) -> None:
        """Sets tags of a run."""
        with self._translated():
            for key, value in values.items():
                self._client.set_tag(run_id, key, fields.cut(value, fields.TAG_LENGTH))

    def untag(self, run: Filed, keys: Sequence[str]) -> None:
        """Removes those of these tags that the run has."""
        with self._translated():
            for key in keys:
                if key in run.tags:
                    self._client.delete_tag(run.run_id, key)

    def remove(self, run: Filed) -> None:
        """Deletes a run and its files. What is left half-way is found and deleted again: the files go first.

        In a database the run's rows go too, as with ``mlflow gc``, which cannot be asked for single runs without taking
        every deleted experiment along; a server only marks the run as deleted. Raises ``ValueError`` for a run whose
        files are not to be removed from here (``removal.obstacle``).
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        if reason := removal.obstacle(self.location, run):
            raise ValueError(f"run {run.run_id} stays: {reason}")
        with self._translated():
            files: Any = get_artifact_repository(run.artifacts, tracking_uri=self.location.uri)
            if files.list_artifacts():
                files.delete_artifacts()
            if (folder := removal.local_folder(run)) is not None:
                with contextlib.suppress(OSError):  # others may have put something beside the run's files
                    folder.parent.rmdir()
            if self.location.kind == "server":
                self._client.delete_run(run.run_id)
            else:
                self._client._tracking_client.store._hard_delete_run(run.run_id)

    def experiment_id(self, kernel: str) -> str:
        """The MLflow experiment of a family; made when missing."""
        with self._translated():
            return self._experiment(kernel)

    @property
    def _client(self) -> MlflowClient:
        if self._opened is None:
            raise RuntimeError("MlflowStore.open() comes first")
        return self._opened

    def _experiment(self, label: str) -> str:
        if label not in self._experiments:
            self._experiments[label] = _experiment(self._client, label, self.location.artifacts)
        return self._experiments[label]

    def _finish(self, run: Run, status: str, end: int) -> str:
        self._client.set_terminated(run.info.run_id, status, end or None)
        self._finished.add(run.info.run_id)
        return str(run.info.run_id)

    def _runs(self, experiment: str, sweep_id: str, result_id: str) -> dict[str, Run]:
        """Runs the store already has, by result id (a summary's by sweep id): one search serves a whole sweep."""
        key = (experiment, sweep_id or result_id)
        if key not in self._known:
            found: dict[str, Run] = {}
            query = f"tags.sweep_id = '{sweep_id}'" if sweep_id else f"tags.result_id = '{result_id}'"
            for run in itertools.chain.from_iterable(self._pages([experiment], query)):
                found[run.data.tags.get("result_id", sweep_id)] = run
                if run.info.status != "RUNNING":
                    self._finished.add(run.info.run_id)
            self._known[key] = found
        return self._known[key]

    def _found(self, families: list[str], query: str, selection: Selection) -> Iterator[Filed]:
        for page in self._pages(families, query, ["attributes.start_time", "attributes.run_id"]):
            yield from (run for run in map(_filed, page) if selection.holds(run))

    def _pages(self, experiments: list[str], query: str, order: list[str] | None = None) -> Iterator[list[Run]]:
        """Every run that a search finds, page by page."""
        token = None
        while True:
            page = self._client.search_runs(
                experiments, query, max_results=RUNS_PER_PAGE, order_by=order, page_token=token
            )
            yield page
            token = page.token
            if not token:
                return

    def _families(self, kernels: Sequence[str]) -> list[str]:
        """Ids of the experiments of these names, of all where none is named."""
        if kernels:
            found = [self._client.get_experiment_by_name(kernel) for kernel in kernels]
            return [str(one.experiment_id) for one in found if one is not None]
        ids: list[str] = []
        token = None
        while True:
            page = self._client.search_experiments(page_token=token)
            ids += [str(one.experiment_id) for one in page]
            token = page.token
            if not token:
                return ids

    def _log(
        self,
        run: Run,
        params: Mapping[str, str],
        metrics: Mapping[str, float],
        end: int,
        points: Sequence[fields.Point] = (),
    ) -> None:
        """One batch; a second one only above MLflow's limits. Repeating it adds nothing: the times are the same."""
        from mlflow.entities import Metric, Param

        all_params = [Param(key, value) for key, value in params.items() if value]
        all_metrics = [Metric(key, value, end, 0) for key, value in metrics.items()]
        all_metrics += [Metric(*point) for point in points]
        while all_params or all_metrics:
            self._client.log_batch(
                run.info.run_id, all_metrics[:METRICS_PER_BATCH], all_params[:PARAMS_PER_BATCH], synchronous=True
            )
            all_params, all_metrics = all_params[PARAMS_PER_BATCH:], all_metrics[METRICS_PER_BATCH:]

    def _repository(self, run: Run) -> artifacts.Repository:
        """Where the run's artifacts go. The client would ask for the run's location once more at each of them."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        found: artifacts.Repository = get_artifact_repository(run.info.artifact_uri, tracking_uri=self.location.uri)
        return found

    def _summary_tags(
        self, sweep: Sweep, results: Sequence[Result], run_ids: Sequence[str], report: Path
    ) -> dict[str, str]:
        experiments = [self._experiment(kernel) for kernel in sorted({r.kernel for r in results})]
        compare = links.compare(self.location, run_ids, experiments)
        table = report / "table.md"
        note = [f"Compare its runs: {compare}"] if compare else []
        if table.is_file():
            note.append(table.read_text(encoding="utf-8"))
        values = {
            "kind": "summary",
            "sweep_id": sweep.sweep_id,
            "status": sweep.status.value,
            "repeat": sweep.command,
            "host": sweep.host,
            "compare": compare,
            "mlflow.note.content": "\n\n".join(note),
            "mlflow.user": fields.user(),
            "mlflow.source.name": "runner",
            "mlflow.source.type": "LOCAL",
        }
        return {key: fields.cut(value, fields.TAG_LENGTH) for key, value in values.items() if value}

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Whatever goes wrong in the store becomes one clear line without a password."""
        try:
            yield
        except BaseException as error:
            self.refresh()  # a request that failed or was interrupted may have been carried out all the same
            if isinstance(error, TrackingUnavailable) or not isinstance(error, Exception):
                raise
            # MLflow, SQLAlchemy, requests and cloud clients each raise their own kinds.
            raise TrackingUnavailable(probe.explain(self.location, error)) from None


def _filed(run: Run) -> Filed:
    data, info = run.data, run.info
    return Filed(
        run_id=str(info.run_id), params=dict(data.params), metrics=dict(data.metrics), tags=dict(data.tags),
        started=info.start_time or 0, ended=info.end_time or 0, name=info.run_name or "", status=info.status or "",
        artifacts=info.artifact_uri or "",
    )  # fmt: skip


def _client(location: Location) -> MlflowClient:
    """Imports MLflow, quietly and with short limits, and connects."""
    for key, value in SETTINGS.items():
        os.environ.setdefault(key, value)
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"  # "create run" sent twice makes two runs
    for logger in ("mlflow", "alembic", "urllib3"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    import mlflow.store.db.utils
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.ERROR)  # its import sets INFO
    # Prints a traceback, parameters included, for each error that it also raises.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    mlflow.store.db.utils.MAX_RETRY_COUNT = 2  # by default a database that refuses costs 100 s
    if location.kind == "sqlite":
        _create_database(location.database, location.artifacts)
        database.quick(location.database)
    return MlflowClient(tracking_uri=location.uri, registry_uri=location.uri)


def _create_database(target: Path, artifacts: str) -> None:
    """Makes the SQLite file under a lock and under another name: a crash half-way leaves no broken store."""
    if target.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(target.with_name(f".{target.name}.lock"), timeout=CREATE_TIMEOUT_S):
            if target.is_file():
                return
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

            fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
            fresh.unlink(missing_ok=True)
            database.careless(fresh)
            try:
                store = SqlAlchemyStore(f"sqlite:///{fresh}", artifacts)  # type: ignore[no-untyped-call]
                store.engine.dispose()
                database.flush(fresh)
                os.replace(fresh, target)
            finally:
                fresh.unlink(missing_ok=True)
    except Timeout:
        raise TrackingUnavailable(f"another process has been making {target} for two minutes") from None


def _experiment(client: MlflowClient, label: str, artifacts: str) -> str:
    """Id of the experiment called ``label``; two processes may make it at once."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(label)
    if found is None:
        location = f"{artifacts}/{label}" if artifacts else None
        try:
            return str(client.create_experiment(label, artifact_location=location))
        except MlflowException as error:
            found = client.get_experiment_by_name(label)
            if found is None:
                raise error
    if found.lifecycle_stage == "deleted":
        raise TrackingUnavailable(
            f"the experiment {label} was deleted in the store: bring it back with "
            f"`mlflow experiments restore --experiment-id {found.experiment_id}`"
        )
    return str(found.experiment_id)


def _summary_name(sweep: Sweep, results: Sequence[Result]) -> str:
    kernels = "+".join(sorted({r.kernel for r in results})) or "nothing"
    passed = sum(1 for r in results if not r.status.failed)
    return f"{kernels} {passed}/{len(results)} passed {sweep.started[:16]}"[: fields.NAME_LENGTH]
