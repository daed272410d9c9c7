"""AxialBench's instrument, as an asv suite: one module an operation, and in ``instrument`` how it is measured.

asv imports every file in here, in environments that hold little else, so all of them import the standard library (and
``asv_runner``) only at module level.
"""

from asv_runner.benchmarks import benchmark_types

from benchmarks.quantities import TYPES

benchmark_types.extend(kind for kind in TYPES if kind not in benchmark_types)
