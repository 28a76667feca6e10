"""The description of a run: what is in it, and that it fits."""

from __future__ import annotations

from runner.record.fields import TAG_LENGTH
from runner.record.note import MOST_ROWS, note
from runner.result.model import (
    CategoryUse,
    Cause,
    Diagnosis,
    Finding,
    KernelUse,
    Profile,
    ProfileStatus,
    RawReport,
)
from tests.synthetic import result


def kernels(count: int, name: str = "kv_q8") -> list[KernelUse]:
    return [KernelUse(f"{name}_{i}", "attention", 3, 36.0, 12.0, 1 / count) for i in range(count)]


def test_nothing_to_say_is_an_empty_note() -> None:
    assert note(result()) == ""


def test_tables_and_diagnosis_are_markdown() -> None:
    profile = Profile(ProfileStatus.OK, tool="nsys 1")
    profile.kernels = kernels(1, "void a<b|c>")
    profile.categories = [CategoryUse("attention", 3, 36.0, 0.955)]
    profile.findings = [Finding("Invalid read", "kv_q8, kv.cu:12", 7, "thread (1,0,0)")]
    profile.reports = [RawReport("a.nsys-rep", 12, "ab")]
    cause = Cause("dram", "memory", "likely", ["DRAM is at 91 %."], ["Fewer bytes."])
    made = result(profile=profile, diagnosis=Diagnosis("memory", "likely", [cause], "profiler=ncu"))
    text = note(made)
    assert text.startswith(
        "**Bound by memory** (likely)\n* DRAM is at 91 %.\n* Try: Fewer bytes.\n* Next: profiler=ncu"
    )
    assert "| void a\\<b\\|c>\\_0 | attention | 3 | 12.00 | 36.0 | 100.0 |" in text
    assert "| attention | 3 | 36.0 | 95.5 |" in text
    assert "| Invalid read | kv_q8, kv.cu:12 | thread (1,0,0) | 7 |" in text
    assert "| a.nsys-rep | ab | 12 |" in text


def test_long_tables_say_how_much_is_left_out() -> None:
    text = note(result(profile=Profile(ProfileStatus.OK, kernels=kernels(MOST_ROWS + 4))))
    assert text.count("| kv_q8_") == MOST_ROWS
    assert text.endswith("and 4 more in result.json")


def test_a_note_fits_into_a_tag_and_is_cut_between_rows() -> None:
    text = note(result(profile=Profile(ProfileStatus.OK, kernels=kernels(MOST_ROWS, "k" * 900))))
    assert len(text) <= TAG_LENGTH
    *_, last, blank, mark = text.splitlines()
    assert (blank, mark) == ("", "… (cut; result.json has the rest)")
    assert last.startswith("| kkk") and last.endswith("|")
