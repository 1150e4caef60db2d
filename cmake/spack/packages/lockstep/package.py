# SPDX-License-Identifier: Apache-2.0
"""Spack recipe. It builds what is committed in the clone that it lies in."""
import pathlib

from spack.package import *

_CLONE = pathlib.Path(__file__).resolve().parents[4]


class Lockstep(CMakePackage, CudaPackage):
    """Distributed data-parallel training for C++ under MPI, with all-reduce algorithms of its own."""

    git = _CLONE.as_uri()

    license("Apache-2.0")

    version("main", branch="main")

    variant("programs", default=True, description="Build train, comm-bench, comm-check and topo")
    variant("shared", default=False, description="Build one shared library")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("nlohmann-json@3.9:", type="build")

    depends_on("mpi")
    depends_on("hwloc@2.5:")
    depends_on("zlib-api")
    # 2.x has Winograd kernels for training in float32, which 3.x lacks.
    depends_on("onednn@2.6:3 cpu_runtime=omp")
    depends_on("boost@1.74: +program_options", when="+programs")
    depends_on("openssl", when="+programs")
    depends_on("libjpeg-turbo@2.1:", when="+programs")
    depends_on("libspng", when="+programs")
    depends_on("pugixml", when="+programs")
    depends_on("yaml-cpp", when="+programs")
    depends_on("lmdb", when="+programs")
    depends_on("python@3.7:", type="run", when="+programs")
    depends_on("nccl@2.18:", when="+cuda")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("LOCKSTEP_TESTS", False),
            self.define("LOCKSTEP_INSTALL", True),
            self.define_from_variant("LOCKSTEP_PROGRAMS", "programs"),
            self.define_from_variant("LOCKSTEP_SHARED", "shared"),
            self.define("LOCKSTEP_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
        ]
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", ";".join(self.spec.variants["cuda_arch"].value)))
        return args
