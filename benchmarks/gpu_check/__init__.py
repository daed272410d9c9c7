"""A CUDA machine looked over in minutes: ``python -m benchmarks gpu-check``. ``command`` says in which parts."""
