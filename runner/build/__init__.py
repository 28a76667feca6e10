"""Compiling kernel sources: nvcc and the CPU's compiler, with one cache. The entry is ``runner.build.api``."""
