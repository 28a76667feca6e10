"""Addresses of MLflow's pages."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

from runner.record import links
from runner.record.location import locate


def test_the_compare_page_takes_runs_and_experiments_as_json() -> None:
    address = links.compare(locate("http://ada:s3cr3t@tracker:5000/ml/"), ["a", "b"], ["1"])
    base, query = address.split("?")
    assert base == "http://tracker:5000/ml/#/compare-runs"
    found = parse_qs(query)
    assert json.loads(found["runs"][0]) == ["a", "b"]
    assert json.loads(found["experiments"][0]) == ["1"]


def test_one_run_is_not_compared_and_many_are_limited() -> None:
    assert links.compare(locate("http://t"), ["a"], ["1"]) == ""
    address = links.compare(locate("http://t"), ["f" * 32] * 500, ["1"])
    assert len(address) < 4000


def test_a_local_store_is_looked_at_through_the_ui() -> None:
    assert links.run(locate(""), "2", "abc") == "http://127.0.0.1:5000/#/experiments/2/runs/abc"
