"""One set of Metal shaders, run without a Mac: translates metal/*.metal to C++ (for tests on the CPU) and to CUDA C++.

    PYTHONPATH=tools python -m msl --help

source.py puts included headers in their places, kernels.py finds what has to be rewritten, emit.py writes the result.
The rest of the Metal Shading Language, its types and its library, is in the headers of include/.
"""
