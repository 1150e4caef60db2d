#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the options of other programs' command lines into `train`, one at a time, and prints what it says as a page.

    other_options.py TRAIN             prints docs/other-options.md
    other_options.py TRAIN --check     fails where the page in docs/ says something else
"""
import pathlib
import subprocess
import sys
import tempfile

# By program. CONF stands for a configuration file that there is.
PROGRAMS = {
    "PaddleDetection tools/train.py": """
        --eval | -r | --resume x | --slim_config x | --enable_ce true | --amp | --fleet | --use_vdl true |
        --vdl_log_dir d | --use_wandb true | --save_prediction_only | --profiler_options x | --save_proposals |
        --proposals_path p | --to_static | -c CONF | --config CONF | -o epoch=2 |
        -o LearningRate.base_lr=0.01 use_gpu=false | --opt epoch=2""",
    "PaddleSeg tools/train.py": """
        --config CONF | --device gpu | --device cpu | --save_dir out | --num_workers 4 | --do_eval | --use_vdl |
        --use_ema | --resume_model x | --iters 100 | --batch_size 4 | --learning_rate 0.01 | --save_interval 500 |
        --log_iters 10 | --keep_checkpoint_max 3 | --early_stop_intervals 3 | --seed 7 | --precision fp16 |
        --amp_level O1 | --profiler_options x | --data_format NCHW | --repeats 2 | --opts lr=0.2 | --use_multilabel |
        --to_static_training | --output_op argmax | --input_shape 1 | --for_fd | --model_path m | --aug_eval |
        --scales 1.0 | --flip_horizontal | --flip_vertical | --is_slide | --crop_size 512 | --stride 4 | --auc_roc""",
    "PaddleClas tools/train.py": """
        -c CONF | -o Global.epochs=2 | -o Global.device=cpu | -o Global.output_dir=x | -o Global.pretrained_model=x |
        -o Global.save_interval=1 | -o Global.checkpoints=x | -o Global.print_batch_step=10 | -o Global.eval_during_train=True |
        -o Arch.name=lenet | -o Optimizer.name=Momentum | -o Optimizer.lr.learning_rate=0.01 |
        -o DataLoader.Train.dataset.name=ImageNetDataset | -o DataLoader.Train.sampler.batch_size=8 |
        -o DataLoader.Train.loader.num_workers=4 | -p x""",
    "PaddleOCR tools/program.py": """
        -c CONF | -o Global.epoch_num=2 | -o Global.save_model_dir=x | -o Global.pretrained_model=x |
        -o Global.checkpoints=x | -o Global.print_batch_step=10 | -o Optimizer.lr.learning_rate=0.01 |
        -o Train.loader.batch_size_per_card=8 | -p x | --profiler_options x""",
    "YOLOv5 train.py and val.py": """
        --weights= | --weights yolov5s.pt | --cfg yolov5s.yaml | --data coco.yaml | --hyp h.yaml | --epochs 3 |
        --batch 64 | --batch-size 64 | --imgsz 640 | --img 640 | --img-size 640 | --rect | --resume | --nosave |
        --noval | --noautoanchor | --noplots | --evolve | --evolve_population p | --resume_evolve p | --bucket b |
        --cache ram | --image-weights | --device 2,3 | --device 0 | --device cpu | --multi-scale | --single-cls |
        --optimizer Adam | --sync-bn | --workers 8 | --project p | --name exp | --exist-ok | --quad | --cos-lr |
        --label-smoothing 0.1 | --patience 100 | --freeze 10 | --save-period 1 | --seed 0 | --local_rank 0 |
        --entity e | --upload_dataset | --bbox_interval 1 | --mask-ratio 4 | --no-overlap | --model m.pt |
        --pretrained p | --lr0 0.01 | --decay 0.0005 | --cutoff 1 | --dropout 0.1 | --verbose | --conf-thres 0.1 |
        --iou-thres 0.1 | --max-det 3 | --task val | --augment | --save-txt | --save-hybrid | --save-conf |
        --save-json | --half | --dnn""",
    "torchrun": """
        --nnodes 2 | --nproc-per-node 2 | --nproc_per_node 2 | --rdzv-backend c10d | --rdzv-endpoint h:1 |
        --rdzv-id x | --rdzv-conf x | --standalone | --max-restarts 3 | --monitor-interval 1 | --start-method spawn |
        --event-log-handler x | --role r | -m mod | --module | --no-python | --run-path | --log-dir d | -r 3 |
        --redirects 3 | -t 3 | --tee 3 | --local-ranks-filter 0 | --node-rank 0 | --master-addr h | --master-port 1 |
        --local-addr h | --logs-specs x | --numa-binding node | --signals-to-handle SIGTERM""",
    "paddle.distributed.launch, fleetrun": """
        --master h:1 | --legacy x | --rank 0 | --log_level INFO | --log_overwrite x | --sort_ip x |
        --enable_gpu_log x | --nnodes 2 | --nproc_per_node 2 | --log_dir d | --run_mode collective | --job_id x |
        --devices 0,1 | --gpus 0,1 | --npus 0 | --xpus 0 | --selected_gpus 0,1 | --host h | --ips a,b |
        --start_port 6070 | --started_port 6070 | --auto_parallel_config x | --auto_cluster_config x |
        --auto_tuner_json x | --servers x | --trainers x | --trainer_num 2 | --server_num 2 | --gloo_port 1 |
        --with_gloo 1 | --max_restart 3 | --elastic_level 1 | --elastic_timeout 1 | --print_config x |
        --cluster_node_ips a | --node_ip a | --use_paddlecloud""",
    "horovodrun": """
        -v | -np 2 | --num-proc 2 | -cb | --check-build | --disable-cache | --start-timeout 3 |
        --network-interfaces eth0 | --network-interface eth0 | --output-filename f | --verbose | --config-file CONF |
        -p 22 | --ssh-port 22 | -i f | --ssh-identity-file f | --fusion-threshold-mb 64 | --cycle-time-ms 1 |
        --cache-capacity 1 | --hierarchical-allreduce | --no-hierarchical-allreduce | --hierarchical-allgather |
        --no-hierarchical-allgather | --autotune | --no-autotune | --autotune-log-file f |
        --autotune-warmup-samples 3 | --autotune-steps-per-sample 3 | --autotune-bayes-opt-max-samples 3 |
        --autotune-gaussian-process-noise 1 | --min-np 1 | --min-num-proc 1 | --max-np 2 | --max-num-proc 2 |
        --slots-per-host 1 | --elastic-timeout 1 | --reset-limit 1 | --blacklist-cooldown-range 1 |
        --timeline-filename f | --timeline-mark-cycles | --no-timeline-mark-cycles | --no-stall-check |
        --stall-check | --stall-check-warning-time-seconds 1 | --stall-check-shutdown-time-seconds 1 |
        --mpi-threads-disable | --no-mpi-threads-disable | --mpi-args=x | --tcp | --binding-args=x |
        --num-nccl-streams 1 | --thread-affinity 1 | --gloo-timeout-seconds 30 | --log-level INFO |
        --log-with-timestamp | --log-without-timestamp | -prefix-timestamp | --prefix-output-with-timestamp |
        --log-hide-timestamp | --no-log-hide-timestamp | -H a:1 | --hosts a:1 | -hostfile f | --hostfile f |
        --host-discovery-script s | --gloo | --mpi | --jsrun""",
    "Other spellings": """
        --dataset mnist --data_dir . | --keep_checkpoint_max 3 | --save_interval 5 | --val | --no-eval | --fp16 | --amp | --bf16 |
        --bs 4 | --gradient-accumulation-steps 2 | --max-grad-norm 1 | --bucket-cap-mb 25 | --find-unused-parameters |
        --static-graph | --local-rank 0 | --world-size 2 | --dist-url x | --backend nccl | --warmup-epochs 3 |
        --warmup-steps 500 | --lr-scheduler cosine | --lrf 0.01 | --lr-schedule step --gamma 0.1 | --milestones 8,11 | --min-lr 1e-5 |
        --batch-size-per-card 8 | --drop_last | --auto-scale-lr | --momentun 0.9 | --alogrithm ring | --algo ring |
        --lr %value% | --foo""",
}
HEAD = """# Options of other programs

This page is for users of other training programs and launchers: it lists their options as `train` answers them. What is "taken" works as
typed here, under this name or another, or is not needed. For the other options the table says what to use instead.
Made by `mpi-scripts/check/other_options.py TRAIN`.
"""


def answer(train, typed, conf):
    """What train says about an option. With --help=launcher it reads its options, and starts nothing."""
    argv = [train, *typed.replace("CONF", conf).split(" "), "--help=launcher"]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if result.returncode == 0:
        notes = [field.removeprefix("note ") for field in result.stdout.split("\0") if field.startswith("note ")]
        return "; ".join(["taken", *notes])
    if result.returncode != 2 or not result.stderr:
        sys.exit(f"{' '.join(argv)}: ended with {result.returncode}, not 0 or 2: {result.stdout}{result.stderr}")
    mistakes = " ".join(result.stderr.strip().splitlines())
    return mistakes.removeprefix("train: ").replace(conf, "CONF").replace("|", "\\|")


def grouped(answers):
    """Answers, each with what was typed; an answer about an option as it was typed is one without its name."""
    groups = {}
    for typed, text in answers:
        name = typed.removeprefix("-o ").split(" ")[0].split("=")[0]
        groups.setdefault(text.replace(f"{name}: ", "", 1), []).append(f"`{typed}`")
    return groups


def section(program, answers):
    plain = [f"`{typed}`" for typed, text in answers if text == "taken"]
    renamed = [f"`{typed}` ({text.split(' is ', 1)[1]})" for typed, text in answers if text.startswith("taken; ") and " is --" in text]
    rest = grouped((typed, text.removeprefix("taken; ")) for typed, text in answers if text != "taken" and " is --" not in text)
    yield f"## {program}\n"
    if plain or renamed:
        yield f"Taken: {', '.join(plain + renamed)}.\n"
    yield "| Typed | Answer |\n|---|---|"
    yield from (f"| {', '.join(typed)} | {text} |" for text, typed in rest.items())
    yield ""


def page(train):
    lines = [HEAD]
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write("seed: 3\n")
        conf.flush()
        for program, options in PROGRAMS.items():
            typed = [option.strip() for option in options.split("|")]
            lines += section(program, [(option, answer(train, option, conf.name)) for option in typed])
    return "\n".join(lines)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    text = page(sys.argv[1])
    if "--check" not in sys.argv:
        print(text, end="")
        return
    committed = pathlib.Path(__file__).parents[2] / "docs" / "other-options.md"
    if committed.read_text() != text:
        sys.exit(f"{committed.name} is not what train says: mpi-scripts/check/other_options.py TRAIN > docs/other-options.md")


main()
