#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What launch.sh makes of the command lines that users of other launchers know: launch_test.py ROOT TRAIN

It prints the command with --dry-run, for a launcher that says it is Open MPI's or MPICH's.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT, TRAIN = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "mpi-scripts"))
from launch import options, plan, reader, resume  # noqa: E402

LAUNCH = ROOT / "mpi-scripts/launch.sh"
EIGHT = "0,1,2,3,4,5,6,7"


def launch(line, family="Open MPI", **environment):
    """The result of launch.sh with these words, where train is found in PATH, behind the launcher's name. The folder has a file
    of options, FILE."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "FILE").write_bytes(b"\xef\xbb\xbfmodel: lenet\n")
        mpirun = pathlib.Path(folder, "mpirun")
        mpirun.write_text(f"#!/bin/sh\necho '{family} 1.0'\n")
        mpirun.chmod(0o755)
        variables = {"HOME": folder, "MPIEXEC": str(mpirun), "PATH": f"{os.path.dirname(TRAIN)}:/usr/bin:/bin",
                     "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"} | environment
        variables = {name: value for name, value in variables.items() if value is not None}
        result = subprocess.run([LAUNCH, *shlex.split(line)], env=variables, capture_output=True, text=True, cwd=folder)
        printed = result.stdout.replace(str(mpirun), "mpirun").replace(TRAIN, "train").replace("-x OMP_NUM_THREADS -x OMP_WAIT_POLICY ", "")
        return result, printed.strip()


class Launch(unittest.TestCase):
    def expect(self, line, command, notes=(), **how):
        result, printed = launch("--dry-run " + line, **how)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(printed, command)
        for note in notes:
            self.assertIn(note, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), len(notes), result.stderr)

    def refuse(self, line, message, **how):
        result, printed = launch(line, **how)
        self.assertEqual((result.returncode, printed), (2, ""), result.stderr)
        self.assertIn(message, result.stderr)

    def test_fleetrun_on_one_host(self):
        self.expect(f"--selected_gpu {EIGHT} tools/train.py -c FILE --eval",
                    f"mpirun --oversubscribe -np 8 --bind-to none -x PATH train --config FILE --device {EIGHT}",
                    ["--eval is not needed"])

    def test_fleetrun_on_four_hosts(self):
        hosts = ["10.127.6.17", "10.127.5.142", "10.127.45.13", "10.127.44.151"]
        placed = ",".join(host + ":8" for host in hosts)
        self.expect(f"fleetrun --ips={','.join(hosts)} --selected_gpu {EIGHT} tools/train.py -c FILE",
                    f"mpirun -H {placed} -np 32 --bind-to none -x PATH train --config FILE --device {EIGHT}")

    def test_paddle_with_logs(self):
        result, printed = launch(f"--dry-run python3 -m paddle.distributed.launch --log_dir=./log/ --ips=192.168.0.1,192.168.0.2 "
                                 f"--gpus={EIGHT} tools/train.py -c FILE")
        self.assertTrue(printed.startswith("mpirun -H 192.168.0.1:8,192.168.0.2:8 -np 16 --bind-to none -x PATH bash -c "), printed)
        self.assertTrue(printed.endswith(f"/log new train --config FILE --device {EIGHT}"), printed)

    def test_paddles_options_of_the_program(self):
        self.expect(f"python -m paddle.distributed.launch --gpus {EIGHT} train.py --config FILE --save_dir output/M "
                    "--save_interval 1000 --num_workers 3 --do_eval --use_vdl",
                    f"mpirun --oversubscribe -np 8 --bind-to none -x PATH train --config FILE --save-dir output/M --save-steps 1000 "
                    f"--workers 3 --tensorboard --device {EIGHT}",
                    ["--save_interval is --save-steps: in PaddleSeg it counts steps", "--num_workers is --workers",
                     "--do_eval is not needed", "--use_vdl is --tensorboard"])

    def test_torchrun(self):
        self.expect("python -m torch.distributed.run --nproc_per_node 2 train.py --batch 64 --weights FILE --device 0,1 --sync-bn",
                    "mpirun --oversubscribe -np 2 --bind-to none -x PATH train --batch 64 --weights FILE --device 0,1 --sync-bn")

    def test_words_of_another_launcher_behind_our_options(self):
        for words in ("python -m torch.distributed.launch --nproc_per_node 2 --use_env train.py", "--ppn 2 python tools/train.py",
                      "python3 -u -X dev -m torch.distributed.run --nproc_per_node=2 tools/train.py", "torchrun --no-python --ppn 2 train",
                      "--ppn 2 -- python3.11 train_dist.py"):
            self.expect(f"--hosts A,B {words} --steps 2", "mpirun -H A:2,B:2 -np 4 --bind-to none -x PATH train --steps 2")
        for words in ("python test_own.py train.py", "python -m own.main --ips a", "./own train.py"):
            self.expect(f"-n 1 {words}", f"mpirun --oversubscribe -np 1 --bind-to none -x PATH {words}")

    def test_a_script_that_does_not_train(self):
        for words in ("val.py", "python tools/eval.py", "python -m torch.distributed.run evaluate_net.py"):
            self.refuse(f"{words} --weights FILE", "is a script in Python, of which only train.py means lockstep's train: evaluate by train --eval-only")
        self.refuse("main.py", "main.py is a script in Python")

    def test_another_node_rank_starts_nothing(self):
        result, printed = launch("python -m torch.distributed.launch --nnodes 2 --nproc_per_node 4 --use_env --node_rank 1 "
                                 "--master_addr 192.168.1.2 --master_port 1234 train.py")
        self.assertEqual(result.returncode, 0)
        self.assertIn("node rank 1 starts nothing: the ranks of all hosts are started on the first one", printed)

    def test_node_rank_0_starts_all(self):
        self.expect("--nnodes 2 --hosts a,b --nproc_per_node 4 --use_env --node_rank 0 --master_addr a --master_port 1234 train.py",
                    "mpirun -H a:4,b:4 -np 8 --bind-to none -x PATH train")

    def test_mpiruns_own(self):
        self.expect("-H host1,host2 -np 16 train", "mpirun -H host1:8,host2:8 -np 16 --bind-to none -x PATH train")
        self.expect("-H host1:2,host2 -n 5 train", "mpirun -H host1:2,host2:3 -np 5 --bind-to none -x PATH train")

    def test_mpich(self):
        self.expect("-H host1,host2 -np 16 --ifname eth1 train", "mpirun -iface eth1 -hosts host1:8,host2:8 -genv NCCL_SOCKET_IFNAME eth1 "
                    "-n 16 train", family="HYDRA")

    def test_hostfile_interface_port_and_variables(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("# the first has rank 0\nnode1 slots=2\nnode2:1\n")
            file.flush()
            self.expect(f"--hostfile {file.name} --ifname eth1 --start_port=7000 train",
                        "mpirun -H node1:2,node2:1 -np 3 --bind-to none --mca btl_tcp_if_include eth1 --mca oob_tcp_if_include eth1 "
                        "--mca btl_tcp_port_min_v4 7000 -x NCCL_DEBUG -x NCCL_SOCKET_IFNAME=eth1 -x PATH train", NCCL_DEBUG="WARN")
            self.expect("-n 1 train", "mpirun --oversubscribe -np 1 --bind-to none --mca btl_tcp_port_min_v4 7000 -x PATH train",
                        FLAGS_START_PORT="7000")

    def test_hostfiles(self):
        with tempfile.TemporaryDirectory() as folder:
            file, pipe = pathlib.Path(folder, "hosts"), pathlib.Path(folder, "pipe")
            for content, hosts in ((b"\xef\xbb\xbfnode1\r\n  node2 # the other\r\n", "node1:1,node2:1"), (b"a slots = 2 max_slots=4\nb\tslots=1", "a:2,b:1")):
                file.write_bytes(content)
                self.expect(f"--hostfile {file} ./own", f"mpirun -H {hosts} -np {2 + (b'2 max' in content)} --bind-to none -x PATH ./own")
            for content, message in ((b"", "there are no hosts in it"), (b"# node1\n\n", "there are no hosts in it"), (b"\xff\x00", "is no host"),
                                     (b"a\x1b[2J\n", r"'a\x1b[2J' is no host"), (b"#" * (2 << 20), "is longer than"),
                                     (b"a b slots=2\n", f"--hostfile {file}: 'a b slots=2' is no host"),
                                     (b"a slots=x\n", f"--hostfile {file}: 'a slots=x': give host a a number of ranks")):
                file.write_bytes(content)
                self.refuse(f"--hostfile {file} -np 16 train", message)
            self.refuse(f"--hostfile {folder} train", "Is a directory")
            self.refuse("--hostfile /dev/zero train", "is longer than")
            os.mkfifo(pipe)
            with unittest.mock.patch("launch.options.SECONDS", 0.1), self.assertRaisesRegex(options.UsageError, "has not ended within"):
                options.hosts_of({"hostfile": ("--hostfile", str(pipe))})
            writer = subprocess.Popen(["sh", "-c", f"echo node3 >{pipe}"])
            self.assertEqual(options.hosts_of({"hostfile": ("--hostfile", str(pipe))}), [("node3", None)])
            writer.wait()

    def test_suggested_commands_quote_their_paths(self):
        self.assertEqual(plan.on("far", "chmod +x " + shlex.quote("/a b/train")), """ssh far 'chmod +x '"'"'/a b/train'"'"''""")
        self.assertEqual(plan.copied("/a b/train", "far"), "rsync -a '/a b/train' 'far:/a b/train'")
        self.assertEqual(plan.copied("/a/train", "far"), "rsync -a /a/train far:/a/train")

    def test_no_traceback_reaches_a_user(self):
        with tempfile.TemporaryDirectory() as folder:
            gone = pathlib.Path(folder, "gone")
            gone.mkdir()
            result = subprocess.run(["sh", "-c", f"rmdir {gone} && exec {LAUNCH} --log_dir log -n 1 ./own"], cwd=gone, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "(?m)^lockstep-launch: the working folder no longer exists")
        self.assertNotIn("Traceback", result.stderr)

    def test_other_programs_keep_their_options(self):
        self.expect("-n 2 ./own -c FILE", "mpirun --oversubscribe -np 2 --bind-to none -x PATH ./own -c FILE")

    def test_threads_share_the_processors(self):
        processors = len(os.sched_getaffinity(0))
        unset = {"OMP_NUM_THREADS": None, "OMP_WAIT_POLICY": None}
        self.expect("-n 1 ./own", f"mpirun --oversubscribe -np 1 --bind-to none -x OMP_NUM_THREADS={processors} -x PATH ./own", **unset)
        self.expect(f"-n {2 * processors} ./own", f"mpirun --oversubscribe -np {2 * processors} --bind-to none -x OMP_NUM_THREADS=1 "
                    "-x OMP_WAIT_POLICY=passive -x PATH ./own",
                    [f"OMP_NUM_THREADS=1, OMP_WAIT_POLICY=passive, for {2 * processors} ranks and {processors} processors on this host"], **unset)
        self.expect("-n 1 ./own", f"mpirun -genv OMP_NUM_THREADS {processors} -n 1 ./own", family="HYDRA", **unset)

    def test_options_are_read_by_the_program(self):
        start = "mpirun --oversubscribe -np 1 --bind-to none -x PATH train "
        self.expect("-n 1 train -o epochs=3 Optimizer.lr=2 --seed 4", start + "--epochs 3 --lr 2 --seed 4")
        self.expect("-n 1 train --weights '' --metrics=-m", start + "--weights= --metrics=-m")
        self.expect("-n 1 train --metrics 'a b'", start + "--metrics 'a b'")
        result, printed = launch("-n 1 train --log_dir log --bacth 3 -o Global.batch_size=8")
        self.assertEqual((result.returncode, printed), (2, ""))
        self.assertRegex(result.stderr, "^train: --log_dir: lockstep-launch writes a file for each rank, and its options stand before the program"
                                        r".*\n  there is no option '--bacth'.*\n  Global.batch_size: its meaning differs")

    def test_values_are_those_of_the_file_as_the_program_reads_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "f.yml")
            file.write_text("\ufeffoutput_dir: \"runs # 1\"  # quoted\nresume: 'best'\nthreads = 3\n")
            with unittest.mock.patch.dict(os.environ, PATH=f"{os.path.dirname(TRAIN)}:{os.environ['PATH']}"):
                command = ["train", "-c", str(file), "--checkpoint", "last"]
                self.assertEqual([reader.value_of(command, name) for name in ("--save-dir", "--resume", "--threads", "--device")],
                                 ["runs # 1", "last", "3", None])
                run = resume.Run(command, None)
                self.assertEqual((run.folder, run.arguments), (os.path.abspath("runs # 1"), ["--config", str(file), "--resume", "last"]))
            script = pathlib.Path(folder, "train")
            script.write_text("#!/bin/sh\ntouch asked\n")
            script.chmod(0o755)
            self.assertFalse(reader.prints_its_options(str(script)), "a script may start something, so it is not asked")

    def test_mistakes(self):
        for line, message in (("--frob 3 train", "there is no option '--frob'"),
                              ("--fr\x1b]0;x\a\u202e 3 train", "there is no option '--fr?]0;x??'"),
                              ("-np 0 train", "-np 0: give a number from 1 on"),
                              ("-np 2 CUDA_VISIBLE_DEVICES=0,1 train", "CUDA_VISIBLE_DEVICES=0,1: write variables of the environment before"),
                              ("-np", "-np needs a value"),
                              ("-np 2", "which program?"),
                              ("--nnodes 2 train", "--nnodes 2 needs the hosts' names: add --hosts with 2 of them"),
                              ("--nnodes 3 -H a,b train", "--nnodes 3, but 2 hosts are listed"),
                              ("-H a,a train", "host a is listed twice"),
                              ("-H 'a;b' train", "'a;b' is no host"),
                              ("-H , train", "-H ,: there are no hosts in it"),
                              ("--start_port x -np 2 train", "--start_port x: give a number"),
                              ("--start_port 70000 train", "give a TCP port, at most 65535"),
                              ("--max_restart \u00b2 train", "give a number of restarts"),
                              ("--hosts a --ips b train", "leave one out"),
                              ("--gpus 0,1 --nproc_per_node 3 train", "--gpus 0,1 has 2: each rank gets one"),
                              ("-H a:2,b:2 --ppn 2 -np 5 train", "2 hosts have 4 ranks together"),
                              ("-H a,b -np 1 train", "2 hosts need a rank each"),
                              ("--hostfile /absent train", "/absent: No such file or directory")):
            self.refuse(line, message)
        for name, value, message in (("FLAGS_START_PORT", "x", "FLAGS_START_PORT x: give a number"),
                                     ("LOCKSTEP_PREFLIGHT_SECONDS", "x", "LOCKSTEP_PREFLIGHT_SECONDS=x: give a number of seconds above 0"),
                                     ("LOCKSTEP_LAUNCH_AGENT", "ssh 'x", "LOCKSTEP_LAUNCH_AGENT=ssh 'x: No closing quotation")):
            self.refuse("-H a,b -np 2 train", message, **{name: value})
        self.refuse("-np 2 train", "install Open MPI or MPICH, or name it in MPIEXEC", MPIEXEC="/absent/mpirun")

    def test_scripts_explain_themselves(self):
        for script, line in (("launch", "--max_restart N "), ("supervise", "--max_restart N "),
                             ("local-cluster", "--slurm "), ("check/soak", "MINUTES (60) ")):
            with tempfile.TemporaryDirectory() as folder:
                result = subprocess.run([ROOT / f"mpi-scripts/{script}.sh", "--help"], capture_output=True, text=True, cwd=folder)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertRegex(result.stdout, f"(?m)^  +{re.escape(line)}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
