#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How gpu-short.sh spends its time, and how kernel_budget.py reads ncu's tables: gpu_short_test.py ROOT TRAIN

The steps start scripts in place of train, which note how they were started and end as they are told; one test is the real
train's, on the CPU. It works in a copy of mpi-scripts, because results are kept beside the scripts, in build.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, TRAIN = map(pathlib.Path, sys.argv[1:3])
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "mpi-scripts/check"))
import kernel_budget  # noqa: E402

# Behaves by its first option of a file named "plan": "hang", "fail", or nothing, for which it trains.
FAKE = """#!/bin/bash
echo "${0##*/} $*" >>starts
case $(cat plan) in
  hang) echo "I hang"; sleep 100 & sleep 100 ;;
  fail) echo "train: no such kernel"; exit 5 ;;
  choices) ! grep -qs old build/gpu-short/kernels.txt || { echo "train: the choices are of version 1"; exit 2; } ;;
esac
while [ $# -gt 0 ]; do
  [ "$1" != --metrics ] || for i in 1 1 2 2 3 3; do echo '{"event":"step","images_per_second":'$i'0}'; done >"$2"
  shift
done
echo "weights sha256 abc"
"""


class Short(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        shutil.copytree(ROOT / "mpi-scripts", self.folder / "mpi-scripts", ignore=shutil.ignore_patterns("__pycache__"))
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        for name in ("train", "train-old"):
            (self.programs / name).write_text(FAKE)
            (self.programs / name).chmod(0o755)

    def start(self, *words, plan="", code=0, **environment):
        """@return the lines of steps.jsonl by step, the newest of each"""
        (self.folder / "plan").write_text(plan)
        out = ["--out", self.folder / "out"]
        command = [self.folder / "mpi-scripts/check/gpu-short.sh", "--device", "cpu", "--programs", self.programs, *out, *words]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=100,
                                env=os.environ | environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertLessEqual(len(list((self.folder / "out").iterdir())), 8)
        lines = [json.loads(line) for line in (self.folder / "out/steps.jsonl").read_text().splitlines()]
        for line in lines:
            self.assertLessEqual({"step", "outcome", "seconds", "device", "figures"}, line.keys())
            self.assertEqual("reason" in line, line["outcome"] != "passed", line)
        return {line["step"]: line for line in lines}

    def starts(self):
        return (self.folder / "starts").read_text().splitlines()

    def outcomes(self, lines):
        return {name: line["outcome"] for name, line in lines.items()}

    def test_goes_on_after_a_failure_and_says_why(self):
        lines = self.start("describe", "resnet50", "ncu", "sha", plan="fail", code=1)
        self.assertEqual(self.outcomes(lines), {"describe": "passed", "resnet50": "failed", "ncu": "skipped", "sha": "failed"})
        self.assertIn("ended with 5: train: no such kernel", lines["sha"]["reason"])
        self.assertEqual(lines["ncu"]["reason"], "it needs a GPU")
        self.assertIn("no such kernel", (self.folder / "out/log.txt").read_text())

    def test_ends_a_program_that_hangs_with_all_that_it_has_started(self):
        lines = self.start("--seconds", "8", "--reserve", "0", "resnet18", plan="hang", code=1)
        self.assertEqual(lines["resnet18"]["outcome"], "timeout")
        self.assertLess(lines["resnet18"]["seconds"], 30)
        self.assertIn("I hang", (self.folder / "out/log.txt").read_text())
        at_work = [stat for stat in pathlib.Path("/proc").glob("[0-9]*/cwd") if self.points_here(stat)]
        self.assertEqual(at_work, [])

    def points_here(self, link):
        try:
            return pathlib.Path(os.readlink(link)) == self.folder
        except OSError:
            return False

    def test_begins_no_step_when_too_little_time_is_left_and_goes_on_there(self):
        lines = self.start("--seconds", "60", "--reserve", "61")
        self.assertEqual(set(self.outcomes(lines).values()), {"left"})
        self.assertRegex(lines["resnet50"]["reason"], "^only [0-9]+ s are left, fewer than 61$")
        self.assertFalse((self.folder / "starts").exists())
        self.start("--reserve", "9", "resnet50")
        before = len(self.starts())
        lines = self.start("--reserve", "9", "--seconds", "2000", code=1)  # no mpirun trains these, so two ranks fail
        self.assertNotIn("left", self.outcomes(lines).values())
        self.assertEqual(lines["resnet50"]["figures"]["images_per_second"], 30)
        self.assertEqual(lines["eager"]["outcome"], "skipped" if "torch" in lines["eager"].get("reason", "") else "failed")
        self.assertEqual(lines["resnet50-again"]["figures"]["of_old"], 1)
        again = [line for line in self.starts()[before:] if "--kernels build/gpu-short/kernels.txt" in line]
        self.assertEqual(len(again), 3, "resnet50 has a result already; there remain resnet50-again, resnet18, resnet20")
        self.assertEqual(len(self.start()), len(lines))

    def test_measures_kernels_where_the_recorded_choices_are_refused(self):
        (self.folder / "build/gpu-short").mkdir(parents=True)
        (self.folder / "build/gpu-short/kernels.txt").write_text("old\n")
        lines = self.start("resnet50", plan="choices")
        self.assertEqual(lines["resnet50"]["outcome"], "passed")
        self.assertEqual(len(self.starts()), 2)

    def test_takes_along_what_was_packed(self):
        (self.folder / "build/carry").mkdir(parents=True, exist_ok=True)
        shutil.copy(self.programs / "train", self.programs / "capture_test")
        (self.programs / "kernels.txt").write_text("of the last run\n")
        subprocess.run(["tar", "-C", self.programs, "-cJf", self.folder / "build/carry/programs.tar.xz", "."], check=True)
        (self.folder / "plan").write_text("")
        command = [self.folder / "mpi-scripts/check/gpu-short.sh", "--device", "cpu", "sha"]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual((self.folder / "build/gpu-short/kernels.txt").read_text(), "of the last run\n")

    def tool(self, name, text):
        file = self.folder / name
        file.write_text("#!/bin/bash\n" + text)
        file.chmod(0o755)

    def test_follows_a_wrong_operator_and_reads_what_the_tools_of_a_gpu_say(self):
        self.tool("programs/cuda_ops_test", """
[[ $1 = *=-* ]] && { echo "[       OK ] Ops/CudaRows.AreNearTheReference/9 (3 ms)"; exit; }
echo "[       OK ] BatchNormOnGpus.IsExact (5 ms)"
echo "[  FAILED  ] Ops/CudaRows.AreNearTheReference/norm, where GetParam() = 1 (7 ms)"
exit 1""")
        self.tool("compute-sanitizer", """echo "$*" >>checked; echo "========= ERROR SUMMARY: 0 errors" """)
        table = "\n".join(Budget().raw(step_of_resnet50()))
        (self.folder / "table").write_text(table)
        self.tool("ncu", 'while [ "$1" != --log-file ]; do shift; done; cp table "$2"; "${@:3}"')
        lines = self.start("--device", "cuda", "--small", "ops", "ops-memcheck", "ncu", "explain", "resnet20", "racecheck", code=1,
                           PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(lines["ops"]["figures"], {"passed": 2, "failed": ["Ops/CudaRows.AreNearTheReference/norm"], "skipped": 0})
        self.assertEqual(lines["ops-memcheck"]["figures"]["summary"], "0 errors")
        self.assertIn("--gtest_filter=Ops/CudaRows.AreNearTheReference/norm", (self.folder / "checked").read_text())
        self.assertEqual(lines["ncu"]["figures"]["convolutions"]["kernels"], 161)
        self.assertIn("| convolutions | 161 |", (self.folder / "out/budget.txt").read_text())
        self.assertIn("--steps 1 --without-pass capture", self.starts()[0])
        self.assertEqual(lines["explain"]["reason"], "ncu says more")
        self.assertEqual(lines["resnet20"]["figures"]["program"], "train-old", "the new one's operators are wrong")

    def test_trains_on_the_cpu(self):
        shutil.copy(TRAIN, self.programs / "train")
        lines = self.start("sha", "losses")
        self.assertRegex(lines["sha"]["figures"]["captured"], "^[0-9a-f]{64}$")
        self.assertEqual(list(lines["losses"]["figures"]), ["lenet"])

    def test_names_the_steps_that_there_are(self):
        result = subprocess.run([ROOT / "mpi-scripts/check/gpu-short.sh", "--device", "cpu", "speed"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no step 'speed'; there are describe, anchors", result.stderr)


OWN = "void lockstep::ops::cuda::"
LAMBDA = OWN + "each<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(const {0} &, Queue), &lockstep::ops::cuda::<unnamed>::{1}, (unsigned int)1>>>(T1, long)"
STATISTICS = OWN + "sum_pack_parts<(int)8, CheckedDeviations<BFloat16, (int)8>>(T2, PackTiles, double *)"
FOLD = OWN + "fold_each_channel<UseMoments>(T1, long)"
NORM = [FOLD, OWN + "each_pack<(int)8, Normalize<BFloat16, (int)8>>(T2, PackTiles)"]
BACK = [OWN + "sum_pack_parts<(int)8, GradientSums<BFloat16, (int)8>>(T2, PackTiles, double *)",
        OWN + "fold_each_channel<UseGradients>(T1, long)", OWN + "each_pack<(int)8, InputGradient<BFloat16, (int)8>>(T2, PackTiles)"]
# The stem.
NORM_AND_POOL = [FOLD, OWN + "each_pack<PoolNormalized<BFloat16, (int)8>>(T2, PackTiles)"]
BACK_AND_POOL = [kernel.replace("BFloat16, (int)8", "BFloat16, (int)8, PooledGradient<BFloat16, (int)8>") for kernel in BACK]
# The end of a block whose shortcut has a convolution.
NORM_OF_TWO = [FOLD, FOLD, OWN + "each_pack<NormalizeTwo<BFloat16, (int)8>>(T2, PackTiles)"]
BACK_OF_TWO = [OWN + "sum_pack_parts<(int)8, GradientSumsOfTwo<BFloat16, (int)8>>(T2, PackTiles, double *)", BACK[1], BACK[1],
               OWN + "each_pack<InputGradientsOfTwo<BFloat16, (int)8>>(T2, PackTiles)"]
CONVOLUTION = "sm90_xmma_{}_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_kernel_cudnn"


def step_of_resnet50():
    """The kernels of a step, as the program submits them: forward, and both gradients of each convolution in turn."""
    unpack = LAMBDA.format("Packing", "unpack")
    product, layer = [CONVOLUTION.format("fprop"), STATISTICS], [CONVOLUTION.format("wgrad"), unpack, CONVOLUTION.format("dgrad")]
    forward, backward = [*product, *NORM_AND_POOL], [*BACK_AND_POOL, *layer[:2]]
    for block in range(16):
        first = block in (0, 3, 7, 13)
        forward += [*product, *NORM, *product, *NORM, *product, *(product + NORM_OF_TWO if first else NORM)]
        backward = [*(BACK_OF_TWO + layer if first else BACK), *layer, *BACK, *layer, *BACK, *layer, *backward]
    ends = [LAMBDA.format("Windows", "spread"), LAMBDA.format("TensorView", "convert_to_nhwc"), LAMBDA.format("UpdateStep", "update")]
    return [LAMBDA.format("Tensors", "pack"), *forward, CONVOLUTION.format("fprop"), OWN + "sum_runs<LabelLoss>(long)", *layer, *backward, *ends]


class Budget(unittest.TestCase):
    HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
    ROW = '"{}","7","train","127.0.0.1","{}","1","13","(256, 1, 1)","(132, 1, 1)","0","9.0",'

    def report(self, lines, model="resnet50"):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder, "ncu.csv")
            table.write_text("==PROF== Connected to process 7 (train)\ntrain: resnet50\n" + "\n".join(lines) + "\n")
            return kernel_budget.report(table, model)

    def raw(self, names):
        yield self.HEAD + '"dram__bytes.sum","gpu__time_duration.sum"'
        yield '"","","","","","","","","","","","byte","ns"'
        for number, name in enumerate(names):
            yield self.ROW.format(number, name) + '"2,000,000","1,000,000"'

    def test_knows_a_convolution_by_its_place(self):
        report = self.report(self.raw(step_of_resnet50()))
        kernels = {part: row["kernels"] for part, row in report.figures().items()}
        self.assertEqual(kernels, {"update, pack": 56, "stem": 2, "1x1": 3 * 36, "3x3": 3 * 16, "statistics": 53, "folds": 106, "normalize": 49,
                                   "backward sums": 49, "backward dx": 49, "pools, bytes": 2, "other": 4})
        self.assertEqual(report.figures()["3x3"], {"kernels": 48, "ms": 48.0, "gb": 0.096})
        self.assertIn("| 3x3 | 48 | 48.00 | 5.9 | 3.6 | 0.10 | 5.0 | 2 |", report.text())

    def test_puts_convolutions_together_where_their_places_are_not_the_models(self):
        report = self.report(self.raw(step_of_resnet50()[1:-9]))
        self.assertEqual({part for part in report.figures() if part in ("3x3", "1x1", "stem", "convolutions")}, {"convolutions"})
        self.assertIn("| convolutions | 1", report.text())
        self.assertIn(" | 18.9 | 13.0 | ", report.text())

    def test_reads_a_line_for_each_metric_in_any_unit(self):
        lines = [self.HEAD + '"Section Name","Metric Name","Metric Unit","Metric Value"']
        metrics = [("dram__bytes.sum", "Mbyte", "2.00"), ("gpu__time_duration.sum", "usecond", "2,000.00")]
        for name, unit, value in metrics:
            lines.append(self.ROW.format(0, NORM[1]) + f'"Command line profiler metrics","{name}","{unit}","{value}"')
        lines.append(self.ROW.format(1, NORM[1]) + '"Command line profiler metrics","dram__bytes.sum","byte","n/a"')
        self.assertEqual(self.report(lines).figures(), {"normalize": {"kernels": 2, "ms": 2.0, "gb": 0.002}})

    def test_says_what_is_no_table(self):
        with self.assertRaisesRegex(ValueError, "no line of ncu's"):
            self.report(["==ERROR== ERR_NVGPUCTRPERM"])
        with self.assertRaisesRegex(ValueError, "has no gpu__time_duration.sum"):
            self.report([self.HEAD + '"dram__bytes.sum"', self.ROW.format(0, "k") + '"2"'])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
