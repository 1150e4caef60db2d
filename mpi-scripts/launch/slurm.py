# SPDX-License-Identifier: Apache-2.0
"""Explains, before MPI_Init fails, that srun would start ranks that cannot find each other."""
import os
import re
import shutil
import subprocess


def printed_by(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def chosen_plugin(words):
    """The PMI plugin that an srun command uses, and where that was said."""
    for number, word in enumerate(words):
        name, has_value, value = word.partition("=")
        if name == "--mpi":
            return (value if has_value else "".join(words[number + 1:number + 2])), word
    if os.environ.get("SLURM_MPI_TYPE"):
        return os.environ["SLURM_MPI_TYPE"], "SLURM_MPI_TYPE"
    found = re.search(r"MpiDefault\s*=\s*(\S+)", printed_by(["scontrol", "show", "config"]))
    return (found.group(1) if found else "none"), "MpiDefault of slurm.conf"


def mistake(words):
    """@param words  srun and its arguments. @return a sentence with the remedy; empty if the plugin fits"""
    program = next((word for word in words[1:] if not word.startswith("-") and shutil.which(word)), None)
    libraries = printed_by(["ldd", shutil.which(program)]) if program else ""
    plugin, where = chosen_plugin(words)
    if plugin == "list" or "libmpi" not in libraries:  # no MPI that is known here
        return ""
    is_open_mpi = "libopen-rte" in libraries or "libopen-pal" in libraries
    if plugin.startswith("pmix") or (not is_open_mpi and plugin.startswith("pmi")):
        return ""
    available = re.findall(r"\bpmix\w*", printed_by([words[0], "--mpi=list"]))
    remedy = "start it with srun --mpi=pmix" if available else "install Slurm's plugin for PMIx, or use mpirun within the allocation"
    library = "Open MPI" if is_open_mpi else "MPICH"
    return f"srun's PMI plugin is {plugin} ({where}), by which the ranks of {library} cannot find each other: {remedy}"
