#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks hosts in many ways, and expects launch.sh to name each before it starts anything: preflight_test.py ROOT

It runs beside four hosts that mpi-scripts/local-cluster.sh makes. Several of them are broken at once, each in its own way. SETUPS names
all ways. Where a namespace cannot be broken like that, a program on the host's PATH or the agent pretends it.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

ROOT = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "mpi-scripts"))
from launch import checks, probe_links  # noqa: E402

AGENT = shutil.which("ssh")  # that of the local cluster
HOSTS = os.environ["LOCKSTEP_HOSTS"].split(",")
MPIEXEC = shutil.which(os.environ.get("MPIEXEC", "mpirun"))
IS_OPEN_MPI = re.search("Open ?MPI|OpenRTE|PRRTE", subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True).stdout) is not None
PLACES = [pathlib.Path(MPIEXEC).with_name(name) for name in ("prted", "orted")] if IS_OPEN_MPI else \
    [pathlib.Path(MPIEXEC).resolve().with_name("hydra_pmi_proxy")]
DAEMON = next((place for place in PLACES if place.exists()), None)
# Changes the probe that a host is sent: stands before python3, as python3 FILTER OLD NEW...
FILTER = """
    import os, sys
    stdin = sys.stdin.buffer
    text = stdin.read(int(stdin.readline())).decode()
    old, new = sys.argv[1:3]
    assert old in text, old
    text = text.replace(old, new).encode()
    os.write(1, b"%d\\n%b" % (len(text), text))
    while True:
        line = stdin.readline()
        if not line:
            break
        os.write(1, line)
"""


def probe_with(old, new):
    return f"python3() {{ /usr/bin/python3 -IS $WORLD/filter.py {shlex.quote(old)} {shlex.quote(new)} | /usr/bin/python3 \"$@\"; }}"


def fake(program, text):
    """On one host, a program that prints this."""
    return f"mkdir /dev/shm/bin; printf '#!/bin/sh\\ncat <<END\\n%s\\nEND\\n' {shlex.quote(text)} >/dev/shm/bin/{program}; " \
           f"chmod +x /dev/shm/bin/{program}; PATH=/dev/shm/bin:$PATH"


def says(text):
    """An agent that fails like ssh."""
    return f"echo {shlex.quote(text)} >&2; exit 255"


ALL_GPUS = "export EMULATED_GPU_MACHINE=$WORLD/{}.json"
# Rounds: options of launch.sh, options of train (else another program is started), and by host what is broken: the name of the set-up, how it is made, and what must be said, with the remedy.
SETUPS = [
    ("", "", {
        "host2": ("a login asks for a password", says("root@host2: Permission denied (publickey,password)."), "host2: it refuses a login.*ssh-copy-id host2"),
        "host3": ("an unknown host key", says("Host key verification failed."), "host3: its host key is unknown.*ssh-keyscan -H host3"),
        "host4": ("no server of ssh", says("ssh: connect to host host4 port 22: Connection refused"), "host4: nothing answers at the port of ssh.*systemctl start ssh"),
        "host9": ("a name that does not resolve", None, "host9: its name does not resolve.*getent hosts host9")}),
    ("", "", {
        "host2": ("a host that is off", says("ssh: connect to host host2 port 22: No route to host"), "host2: it cannot be reached.*ping host2"),
        "host3": ("a host without python3", "PATH=/nowhere", "host3: python3 is missing.*apt-get install python3"),
        "host4": ("a host that hangs", "exec sleep 60", "host4: it does not answer \\(no answer in time\\).*host4 true must print nothing")}),
    ("", "", {
        "host1": ("no program", "mount -t tmpfs tmpfs $WORLD/bin", "host1: the program .*/own is not found.*rsync -a .*/own host1:"),
        "host2": ("a program that is not executable", "mount --bind $WORLD/plain $WORLD/bin/own", "host2: .*/own is not executable.*chmod \\+x"),
        "host4": ("another build of the program", "mount --bind $WORLD/other $WORLD/bin/own", "host4: .*/own has the build id.*copy the program of host3"),
        "host3": ("a missing library", fake("ldd", "\tlibdnnl.so.2 => not found"), "host3: .*/own lacks the libraries libdnnl.so.2.*LD_LIBRARY_PATH")}),
    ("", "--config $WORLD/set/run.conf", {
        "host1": ("no daemon of the MPI launcher", f"mount --bind /dev/null {DAEMON}", "host1: .*(orted|prted|hydra_pmi_proxy), by which MPI starts ranks there, is not found"),
        "host2": ("another version of MPI", fake("ldd", "\tlibopen-rte.so.40 => /lib/libopen-rte.so.40.99.9 (0x1)"),
               "host2: .*(orted|prted) uses libopen-rte.so.40.99.9, but .*install the same version of MPI"),
        "host3": ("no configuration file", "mount -t tmpfs tmpfs $WORLD/set", "host3: .*/set/run.conf cannot be read.*rsync -a"),
        "host4": ("another clock: ahead", probe_with("time=time.time()", "time=time.time() + 90"), "host4: its clock is [89][0-9].* ahead.*chronyc makestep")}),
    ("", "--data $WORLD/set/data --val $WORLD/set/val", {
        "host2": ("a named pipe among the validation data", "mount --bind $WORLD/set/pipe $WORLD/set/val", "host2: .*/val/images: it is a named pipe.*ls -l"),
        "host1": ("no data", "mount -t tmpfs tmpfs $WORLD/set", "host1: .*/set/data cannot be read \\(.*No such file.*rsync -a"),
        "host3": ("a named pipe among the data", "mount --bind $WORLD/set/pipe $WORLD/set/data", "host3: .*/data/images: it is a named pipe.*ls -l"),
        "host4": ("a file system that does not answer", probe_with("files = files_below(path)", "time.sleep(60)"),
               "host4: .*/set/data cannot be read in time.*Mount it again")}),
    ("--log_dir=$WORLD/set/logs", "", {
        "host1": ("a log directory that cannot be written", "mount -t tmpfs -o ro tmpfs $WORLD/set", "host1: .*/logs cannot be written \\(.*Read-only"),
        "host2": ("a /dev/shm that cannot be written", "mount -o remount,ro /dev/shm", "host2: /dev/shm cannot be used.*mount -t tmpfs"),
        "host3": ("a small /dev/shm", "mount -o remount,size=2m /dev/shm", "host3: /dev/shm has [12] MiB free.*size=64m"),
        "host4": ("no folder for temporary files", "mkdir /dev/shm/full; mount -t tmpfs -o size=8m tmpfs /dev/shm/full; export TMPDIR=/dev/shm/full",
               "host4: MPI needs its folder of temporary files, /dev/shm/full \\([78] MiB free.*TMPDIR")}),
    ("", "--save-dir $WORLD/set/runs/a", {
        "host1": ("a folder of checkpoints that cannot be written", "mount -t tmpfs -o ro tmpfs $WORLD/set",
                  "error: host1: checkpoints cannot be saved in .*/set/runs \\(.*Read-only.*another --save-dir"),
        "host2": ("the same on a host that saves none, and a small ulimit -n", "mount -t tmpfs -o ro tmpfs $WORLD/set; ulimit -n 64",
                  "host2: ulimit -n is 64.*ulimit -n 4096")}),
    ("", "", {
        "host1": ("a small ulimit -v", "ulimit -v 1000000", "host1: ulimit -v is 1000000 KiB.*ulimit -v unlimited"),
        "host2": ("a small ulimit -n", "ulimit -n 64", "host2: ulimit -n is 64.*ulimit -n 4096"),
        "host3": ("a small control group", probe_with('cgroup_value("memory.max", "memory.limit_in_bytes")', "100 << 20"),
               "host3: its control group allows 100 MiB of memory for 1 ranks.*fewer ranks"),
        "host4": ("another clock: behind", probe_with("time=time.time()", "time=time.time() - 90"), "host4: its clock is [89][0-9].* behind.*chronyc")}),
    ("", "--data-dir $WORLD/set/data", {
        "host1": ("data of the same size with other content", "mount --bind $WORLD/set/other $WORLD/set/data", "host1: .*/set/data has other content.*rsync -ac --delete"),
        "host2": ("a limit of file sizes", "ulimit -f 1000", "warning: host2: ulimit -f limits files to 1000 KiB.*ulimit -f unlimited"),
        "host3": ("a slow processor", probe_with("total += i * i", "total += i * i; j = [k for k in range(30)]"), "warning: host3: a loop of its processor.*less than half"),
        "10.77.0.1": ("a host that is listed twice", None, "10.77.0.1: it is the same host as host1.*list it once: host1:2"),
        "host4": ("a host that has the name of another", "hostname other; hostname host2", "host4: it calls itself host2, as host2 does.*hostnamectl set-hostname host4")}),
    ("--gpus 0,0", "", {
        "host1": ("a GPU that is listed twice", ALL_GPUS.format("host1"), "error: host1, host2, host3, host4: GPU 0 is listed twice.*list 2 different GPUs"),
        "host2": ("other GPUs", ALL_GPUS.format("host2"), "warning: host2: its GPUs are NVIDIA T4, but NVIDIA H100.*leave host2 out"),
        "host3": ("a broken driver", fake("nvidia-smi", "NVIDIA-SMI has failed because it could not talk to the NVIDIA driver"),
               "error: host3: its GPUs cannot be checked \\(nvidia-smi: NVIDIA-SMI has failed.*ssh host3 nvidia-smi"),
        "host4": ("a GPU of another host", ALL_GPUS.format("host1"), "host4: GPU GPU-host1-0 is that of host1, too.*list only one of host1 and host4")}),
    ("--gpus 7", "", {
        "host1": ("a GPU that is not there", ALL_GPUS.format("host1"), "host1: there is no GPU 7: it has 2.*list GPUs from 0 to 1"),
        "host2": ("too little locked memory for InfiniBand", probe_with('os.path.isdir("/sys/class/infiniband") and', "True or") + "; ulimit -l 64",
               "warning: host2: ulimit -l is 64 KiB, too little for InfiniBand.*memlock")}),
]
if not IS_OPEN_MPI:  # the daemon of MPICH's launcher uses no MPI library
    SETUPS = [(options, of_train, {host: broken for host, broken in hosts.items() if broken[0] != "another version of MPI"})
              for options, of_train, hosts in SETUPS]
# Rounds in which the network of a host is broken; both commands are run in the host.
NETWORKS = [
    ("no interface of that name", "--ifname eth0", "host2", "ip link set eth0 down; ip link set eth0 name eth7; ip link set eth7 up",
     "ip link set eth7 down; ip link set eth7 name eth0; ip link set eth0 up", "host2: there is no interface eth0.*--ifname with one of eth7"),
    ("an interface that is down", "--ifname eth0", "host3", "ip link set eth0 down", "ip link set eth0 up", "host3: interface eth0 is down.*ip link set eth0 up"),
    ("an interface without an address", "--ifname eth0", "host3", "ip address del 10.77.0.3/24 dev eth0", "ip address add 10.77.0.3/24 dev eth0",
     "host3: interface eth0 has no address.*give it an address"),
    ("a missing route", "", "host2", "ip route add unreachable 10.77.0.3/32", "ip route del unreachable 10.77.0.3/32",
     "host2: it has no route to host3 at 10.77.0.3.*ip route get 10.77.0.3"),
    ("a firewall", "", "host3", "ip route add blackhole 10.77.0.2/32", "ip route del blackhole 10.77.0.2/32",
     "host2: it cannot connect to host3 at 10.77.0.3 \\(timed out.*open the firewalls"),
    ("a slow link", "", "host2", "tc qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 50ms", "tc qdisc del dev eth0 root",
     "warning: host2: its (links carry|link to host3 carries) [0-9]+ MB/s.*less than half"),
    ("a port that is taken", "--start_port 7000", "host2",
     "/usr/bin/python3 -ISc 'import socket, time; s = socket.create_server((\"\", 7000)); time.sleep(60)' >/dev/null 2>&1 & "
     "echo $! >/run/tmp/listener; until ss -ltn | grep -q :7000; do sleep 0.1; done", "kill $(cat /run/tmp/listener)",
     "warning: host2: port 7000 is taken, so MPI uses later ones.*another --start_port.*ss -ltnp"),
    ("networks apart", "", "host3", "ip address add 10.99.0.3/16 dev eth0; ip address del 10.77.0.3/24 dev eth0",
     "ip address del 10.99.0.3/16 dev eth0; ip address add 10.77.0.3/24 dev eth0", "host1, host2: it has no route to host3 at 10.99.0.3 \\(Network is unreachable"),
]


class Preflight(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.world = pathlib.Path(cls.directory.name)
        for folder in ("bin", "faults", "set/data", "set/val", "set/other", "set/pipe"):
            (cls.world / folder).mkdir(parents=True)
        for name, text, mode in (("bin/own", "#!/bin/sh\ntouch $WORLD/started\n", 0o755), ("other", "#!/bin/sh\nexit 3\n", 0o755),
                                 ("plain", "#!/bin/sh\n", 0o644), ("set/run.conf", "seed = 3\n", 0o644), ("set/data/images", "0123", 0o644),
                                 ("set/other/images", "0124", 0o644), ("set/val/images", "0125", 0o644), ("filter.py", textwrap.dedent(FILTER), 0o644),
                                 ("agent", f"#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nhost=$1\nshift\n"
                                           f"[ -f $WORLD/faults/$host ] || exec {AGENT} $host \"$@\"\n"
                                           f"fault=\"mount -t tmpfs tmpfs /dev/shm; source $WORLD/faults/$host; $*\"\n"
                                           f"exec {AGENT} $host \"exec unshare --mount --uts bash -c $(printf %q \"$fault\")\"\n", 0o755)):
            (cls.world / name).write_text(text)
            (cls.world / name).chmod(mode)
        os.link(cls.world / "bin/own", cls.world / "bin/train")
        os.mkfifo(cls.world / "set/pipe/images")
        for host, model in (("host1", "NVIDIA H100"), ("host2", "NVIDIA T4")):
            gpus = [{"name": model, "uuid": f"GPU-{host}-{number}"} for number in range(2)]
            (cls.world / f"{host}.json").write_text(json.dumps({"gpus": gpus}))

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def launch(self, options, of_train, hosts, patience=20, **variables):
        """Starts bin/own, or with options of train bin/train, which is the same. @return the finished launch.sh"""
        own, arguments = (text.replace("$WORLD", str(self.world)).split() for text in (options, of_train))
        program = [self.world / ("bin/train" if arguments else "bin/own"), *arguments]
        environment = os.environ | {"LOCKSTEP_LAUNCH_AGENT": str(self.world / "agent"), "WORLD": str(self.world), "OMP_NUM_THREADS": "1",
                                    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin:" + os.environ["PATH"],
                                    "LOCKSTEP_PREFLIGHT_SECONDS": str(patience), "MPIEXEC": MPIEXEC} | variables
        command = [sys.executable, ROOT / "mpi-scripts/launch/main.py", *own, "-H", ",".join(hosts), *program]
        result = subprocess.run(list(map(str, command)), cwd=self.world, env=environment, capture_output=True, text=True, timeout=120)
        self.assertFalse((self.world / "started").exists() and result.returncode, "something was started")
        return result

    def expect(self, name, said, pattern):
        with self.subTest(setup=name):
            self.assertTrue(any(re.search(pattern, line) for line in said.splitlines()), f"{name}: no line like '{pattern}' in:\n{said}")

    def test_hosts(self):
        for options, of_train, broken in SETUPS:
            for host, (_, how, _) in broken.items():
                if how:
                    (self.world / "faults" / host).write_text(how + "\n")
            hosts = HOSTS + [host for host in broken if host not in HOSTS]
            hangs = any("hangs" in name for name, _, _ in broken.values())
            result = self.launch(options, of_train, hosts, 4 if hangs else 20)
            for fault in (self.world / "faults").iterdir():
                fault.unlink()
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            for name, _, pattern in broken.values():
                self.expect(name, result.stderr, pattern)

    def test_networks(self):
        for name, options, host, how, back, pattern in NETWORKS:
            inside = ["nsenter", f"--net=/run/hosts/{host}/net", "sh", "-ec"]
            subprocess.run([*inside, how], check=True)
            try:
                result = self.launch(options + " --preflight", "", HOSTS[:3])
            finally:
                subprocess.run([*inside, back], check=True)
            self.expect(name, result.stderr, pattern)
            self.assertEqual(result.returncode, 0 if pattern.startswith("warning") else 1, result.stderr)

    def test_sound_hosts(self):
        result = self.launch("--preflight --ppn 2", "--data-dir $WORLD/set/data --device cpu", HOSTS)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("error:", result.stderr)
        self.assertIn("checks of 4 hosts in ", result.stderr)
        rows = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual([row[:3] for row in rows[1:]], [[f"host{number}", f"10.77.0.{number}", "2"] for number in range(1, 5)])
        self.assertEqual(len({tuple(re.findall(r"\b[0-9a-f]{8}\b", line)) for line in result.stdout.splitlines()[1:]}), 1, result.stdout)
        self.assertFalse((self.world / "started").exists(), "--preflight has started the program")

    def test_which_link_is_slow(self):
        """Rates that were measured where host2 is slow: what host1 sends to host2 suffers, too, more or less."""
        for rates, slow in (((17, 12, 966), ["host2"]), ((348, 12, 1230), ["host2"]), ((52, 12, 974), ["host2"]), ((900, 950, 1000), []), ((23, 12, 966), ["host2"])):
            answers = {f"host{number + 1}": {"peer": f"host{(number + 1) % 3 + 1}", "measurements": {"link": {"bytes_per_second": rate * 1e6}}}
                       for number, rate in enumerate(rates)}
            self.assertEqual([finding.host for finding in checks.slow_links(answers, None)], slow, rates)

    def test_strangers_do_not_hide_a_link(self):
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            address = listener.getsockname()
            strangers = [socket.create_connection(address) for _ in range(20)]
            strangers[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
            strangers[1].close()
            results = {}
            receiver = threading.Thread(target=probe_links.receive, args=(listener, b"a token", results))
            receiver.start()
            link = probe_links.send(*address, b"a token", 0.05)
            receiver.join()
            for stranger in strangers:
                stranger.close()
        self.assertEqual(results, {})
        self.assertGreater(link.get("bytes_per_second", 0), 0, link)

    def fake_mpirun(self, script):
        """A launcher that runs this instead, which finds its command line in $*."""
        mpirun = self.world / "mpirun"
        mpirun.write_text(f"#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit; fi\n{script}\n")
        mpirun.chmod(0o755)
        (self.world / "orted").write_text("#!/bin/sh\n")
        (self.world / "orted").chmod(0o755)
        return str(mpirun)

    def test_a_host_that_is_gone_at_a_restart_is_left_out(self):
        mpirun = self.fake_mpirun("echo \"$1 $2 $3 $4\"; [ ! -e $WORLD/faults/host2 ] || exit 0\n"
                                  "echo 'echo No route to host >&2; exit 255' >$WORLD/faults/host2; exit 7")
        result = self.launch("--max_restart 3 --ppn 2", "", HOSTS[:2], MPIEXEC=mpirun)
        (self.world / "faults/host2").unlink()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines(), ["-H host1:2,host2:2 -np 4", "-H host1:2 -np 2"])
        self.assertIn("host2 failed 2 times or cannot be reached, and is left out: 2 ranks train on", result.stderr)

    def test_interfaces_that_lead_nowhere_are_excluded(self):
        """Every host has a bridge of the same address, as Docker makes."""
        mpirun = self.fake_mpirun("echo \"$*\"")
        for host in HOSTS[:2]:
            subprocess.run(["nsenter", f"--net=/run/hosts/{host}/net", "sh", "-ec", "ip link add docker0 type bridge; ip address add 172.17.0.1/16 dev docker0; "
                            "ip link set docker0 up"], check=True)
        result = self.launch("--start_port 7000", "", HOSTS[:2], MPIEXEC=mpirun)
        unchecked = self.launch("--no-preflight", "", HOSTS[:2], MPIEXEC=mpirun)
        for host in HOSTS[:2]:
            subprocess.run(["nsenter", f"--net=/run/hosts/{host}/net", "ip", "link", "del", "docker0"], check=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--mca btl_tcp_if_exclude 127.0.0.1/8,sppp,docker0 --mca oob_tcp_if_exclude lo,docker0", result.stdout)
        self.assertIn("-x NCCL_SOCKET_IFNAME=^lo,docker0", result.stdout)
        self.assertIn("checks of 2 hosts", result.stderr)
        self.assertEqual((unchecked.returncode, unchecked.stderr), (0, ""))

    def test_a_pmi_plugin_that_does_not_fit(self):
        """Under Slurm, before MPI_Init fails."""
        for name, text in (("srun", "#!/bin/sh\necho 'MPI plugin types are... none pmi2 pmix'\n"), ("scontrol", "#!/bin/sh\necho 'MpiDefault = none'\n"),
                           ("ldd", "#!/bin/sh\necho '\tlibmpi.so.40 => /lib/libmpi.so.40 (0x1)'\necho '\tlibopen-pal.so.40 => /lib/x (0x1)'\n")):
            (self.world / "bin" / name).write_text(text)
            (self.world / "bin" / name).chmod(0o755)
        environment = os.environ | {"PATH": f"{self.world}/bin:{os.environ['PATH']}"}
        for option, where in (("--mpi=pmi2", "pmi2 (--mpi=pmi2)"), ("-n4", "none (MpiDefault of slurm.conf)")):
            result = subprocess.run([sys.executable, str(ROOT / "mpi-scripts/launch/main.py"), "srun", option, str(self.world / "bin/own")], env=environment,
                                    capture_output=True, text=True)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"srun's PMI plugin is {where}", result.stderr)
            self.assertIn("srun --mpi=pmix", result.stderr)
        for name in ("srun", "scontrol", "ldd"):
            (self.world / "bin" / name).unlink()


if __name__ == "__main__":
    if DAEMON is None:
        print(f"skipped: the daemon of {MPIEXEC} is not beside it, where this test could hide it")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
