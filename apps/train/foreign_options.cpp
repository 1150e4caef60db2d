// SPDX-License-Identifier: Apache-2.0
#include "apps/train/foreign_options.hpp"

#include <algorithm>
#include <vector>

namespace lockstep::train {
namespace {

/// Spellings that are answered alike.
struct Row {
  std::string_view alias;      ///< as in `ForeignOption`
  std::string_view answer;     ///< as in `ForeignOption`
  std::string_view spellings;  ///< separated by blanks
  bool is_needless = false;
};

constexpr Row rows[] = {
    {"lr", {}, "learning-rate lr0 base-lr base-learning-rate init-lr learning-rate-init optimizer.lr"},
    {"epochs", {}, "epoch epoch-num epochs-num num-epochs max-epoch max-epochs n-epochs"},
    {"steps", {}, "iters max-iters max-iter num-iters iterations max-steps num-steps total-iters"},
    {"batch", {}, "total-batch-size global-batch-size global-batch total-batch"},
    {"batch-per-rank", {}, "batch-size-per-card batch-size-per-gpu samples-per-gpu batch-per-gpu"},
    {"workers", {}, "num-workers worker-num dataloader-num-workers loader-workers num-data-workers"},
    {"log-every",
     {},
     "log-iters log-iter log-interval print-freq print-batch-step log-freq print-interval logging-steps"},
    {"sync-bn", {}, "use-sync-bn sync-batchnorm sync-batch-norm sync-norm syncbn"},
    {"ema", {}, "ema-decay"},
    {"weight-decay", {}, "decay wd l2-decay"},
    {"seed", {}, "random-seed manual-seed"},
    {"data-dir", {}, "data-path data-root dataset-root dataset-dir data-folder"},
    {"model", {}, "arch architecture model-name Arch.name Architecture.name"},
    {"optimizer", {}, "Optimizer.name"},
    {"accumulate",
     {},
     "gradient-accumulation-steps accum-iter accumulation-steps accumulate-grad-batches backward-passes-per-step "
     "grad-accum gradient-accumulation"},
    {"clip-norm",
     {},
     "clip-grad clip-grad-norm max-grad-norm gradient-clip-val grad-clip max-norm clip-gradients grad-norm"},
    {"bucket-mb", {}, "bucket-cap-mb fusion-threshold-mb comm-buffer-size-mb"},
    {"zero", {}, "zero-redundancy sharding shard-optimizer"},
    {"threads", {}, "num-threads cpu-threads omp-num-threads nthreads"},
    {"trace", {}, "timeline timeline-filename"},
    {"metrics", {}, "metrics-file json-log log-file log-json"},
    {"config", {}, "config-file cfg-file configure"},
    {"loss-scale", {}, "init-loss-scaling scale-loss"},
    {"comm-timeout", {}, "gloo-timeout-seconds dist-timeout timeout"},
    {"compress", {}, "compression fp16-allreduce compress-gradients"},
    {"version", {}, "-v -V"},
    {"resume", {}, "-r resume-model resume-from resume-from-checkpoint checkpoint checkpoints ckpt"},
    {{}, "use --resume auto, which takes the newest good checkpoint of --save-dir", "resume-training auto-resume"},
    {"save-dir", {}, "save-model-dir output-dir output checkpoint-dir ckpt-dir save-path"},
    {"save-steps", "in PaddleSeg it counts steps; --save-interval N counts epochs", "save_interval"},
    {"save-interval", {}, "Global.save_interval save-epoch-step snapshot-epoch save-period save-freq"},
    {{},
     "use --save-steps N for steps, or --save-interval N for epochs",
     "snapshot-iter save-every checkpoint-interval ckpt-interval"},
    {{}, "use --save-dir none to save nothing", "nosave save"},
    {"keep", {}, "keep-checkpoint-max"},
    {{},
     "leave it out: the checkpoint with the best accuracy is kept, and named best; --best METRIC chooses another "
     "metric",
     "save-best"},
    {{},
     "use --weights FILE, a safetensors file with the model's names for its tensors; lockstep downloads no "
     "pretrained weights",
     "pretrained load finetune model-path checkpoints-path"},
    {"weights", {}, "pretrain-weights pretrained-model load-from init-from init-checkpoint"},
    {{},
     "processes are started by mpirun, srun or lockstep-launch, whose options stand before the program: mpirun -np 4 "
     "-H host1:2,host2:2 train ...",
     "np -np -n num-proc nproc nnodes nproc-per-node ips -H hosts host hostfile -hostfile slots slots-per-host nodes "
     "ntasks world-size -N num-nodes num-processes num-machines ranks nprocs mpi jsrun mpi-args trainer-num "
     "trainers run-mode tcp host-discovery-script -x bind-to map-by oversubscribe allow-run-as-root output-filename "
     "prefix-timestamp -prefix-timestamp prefix-output-with-timestamp"},
    {{},
     "leave it out: every process learns its rank, its node and its peers from mpirun or srun",
     "rank local-rank node-rank local-world-size trainer-id machine-rank role group-rank job-id sort-ip "
     "local-ranks-filter"},
    {{},
     "leave it out: the ranks find each other by mpirun or srun, without a port or address of your own",
     "master master-addr master-port start-port started-port rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone "
     "local-addr dist-url init-method dist-backend backend port cluster-node-ips node-ip"},
    {{},
     "use --min-ranks N to go on without ranks that die, and lockstep-launch --max_restart N to start a run again; "
     "no ranks join a run",
     "max-restarts max-restart monitor-interval elastic-level elastic-timeout max-np max-num-proc reset-limit "
     "blacklist-cooldown-range start-timeout auto-cluster-config elastic-server signals-to-handle"},
    {"min-ranks", {}, "min-np min-num-proc"},
    {{},
     "lockstep opens no connections by ssh; mpirun or srun starts the processes and has options for it",
     "ssh-port -p ssh-identity-file -i disable-cache"},
    {{},
     "lockstep-launch writes a file for each rank, and its options stand before the program: lockstep-launch "
     "--log_dir DIR -np 2 train ...; or redirect the output",
     "log-dir redirects tee -t log-overwrite logs-specs event-log-handler enable-gpu-log log-name"},
    {{},
     "--device says where to train: cuda, which gives each rank a GPU, the indices of GPUs such as 0,1, or cpu. "
     "Choose the number of ranks by mpirun -np N",
     "gpus gpu gpu-id gpu-ids devices npus xpus selected-gpus selected-gpu selected-devices use-gpu use-cuda cuda "
     "no-cuda use-xpu use-npu use-mlu num-gpus gpus-per-node num-nccl-streams"},
    {{},
     "leave it out: train evaluates on the test set by itself, and reports loss and accuracy. --eval-only with "
     "--weights or --resume evaluates without training",
     "val validate test cal-metric-during-train"},
    {{},
     "train evaluates on the test set by itself; --eval-interval never switches that off",
     "eval do-eval do-val with-eval eval-during-train",
     true},
    {"eval-only", {}, "evaluate"},
    {{},
     "use --eval-interval never, or --eval-interval N to evaluate after every Nth epoch",
     "noval no-eval no-val skip-eval"},
    {{}, "instead of logs for VisualDL, --metrics FILE has one JSON object per line", "use-vdl use-visualdl", true},
    {{},
     "lockstep writes no VisualDL, TensorBoard or W&B logs; use --metrics FILE, which has one JSON object per line",
     "vdl-log-dir use-wandb wandb wandb-project tensorboard tensorboard-dir tb-log-dir log-tensorboard entity "
     "upload-dataset bbox-interval artifact-alias noplots plots report-to visualize"},
    {{},
     "use --save-dir DIR, the folder of the run",
     "project name exist-ok exp exp-name run-name experiment run-dir log-folder run-path"},
    {{},
     "lockstep has no such profiler; use --trace FILE for a timeline of all ranks, or --explain-step for each "
     "operator",
     "profiler-options profile profiler -profiler-options timeline-mark-cycles no-timeline-mark-cycles profile-steps"},
    {{},
     "use --precision bf16 or --precision mixed-fp16",
     "amp amp-level fp16 half bf16 use-amp use-fp16 use-mixed-precision mixed-precision opt-level dtype"},
    {{},
     "its meaning differs between programs; use --batch N, the global batch: samples of a step over all ranks "
     "together, or --batch-per-rank N, the samples of a step on each rank",
     "batch-size batchsize bs b train-batch-size per-device-train-batch-size micro-batch-size -b mini-batch-size"},
    {{},
     "use --dataset NAME and, where it is read from files, --data-dir DIR; lockstep reads the formats of MNIST and "
     "CIFAR-10. A data set of your own is added in C++ (examples/own_model.cpp)",
     "data -d data-cfg train-dataset val-dataset dataset-type train-path val-path train-root val-root annotations "
     "data-config train-dir val-dir train-data anno-path image-dir dataset.name Train.dataset.name Eval.dataset.name "
     "DataLoader.Train.dataset.name DataLoader.Eval.dataset.name"},
    {{},
     "lockstep has no model files; use --model NAME, and --config FILE for a file of options. A model of your own is "
     "added in C++ (examples/own_model.cpp)",
     "cfg model-cfg model-config model-type backbone algorithm-type"},
    {{},
     "lockstep has no hyperparameter files; use --lr, --momentum, --weight-decay, or all options in a file: --config "
     "FILE",
     "hyp hyperparameters hyper-params slim-config params"},
    {{},
     "of data augmentation lockstep has crops and flips: --augment crop,flip; leave it out",
     "rect image-weights multi-scale mosaic close-mosaic mixup copy-paste hsv-h hsv-s hsv-v degrees translate scale "
     "shear perspective flipud fliplr aug cutout erase auto-augment aug-eval scales flip-horizontal flip-vertical "
     "is-slide stride transforms quad albumentations randaugment cutmix random-erase"},
    {{},
     "lockstep does not resize images; the size follows from the data set",
     "img imgsz img-size image-size input-size crop-size input-shape image-shape eval-height eval-width target-size "
     "resize"},
    {{},
     "use --optimizer sgd, adamw, lars or lamb, with --lr, --momentum (which is beta1, too), --beta2, --epsilon, "
     "--nesterov and --weight-decay",
     "optim opt-type adam sgd beta1 adam-eps betas eps"},
    {{}, "use --lr-schedule cosine; --lr-final X sets where it ends", "cos-lr cosine"},
    {"warmup", {}, "warmup-epochs warmup-epoch lr-warmup-epochs"},
    {"warmup-steps", {}, "warmup-iters num-warmup-steps lr-warmup-steps"},
    {"lr-schedule", {}, "lr-scheduler-type sched lr-scheduler scheduler lr-policy"},
    {{},
     "use --lr-schedule step and --lr-milestones X,... with fractions of the run, such as 0.5,0.75",
     "lr-step-size decay-milestones lr-decay step-size milestones lr-decay-epochs decay-steps"},
    {{},
     "use --lr-final X, the final learning rate as a fraction of the peak, and not the rate itself",
     "lr-min min-lr final-lr"},
    {{}, "use --lr-scaling linear; --base-batch N is the batch that --lr is meant for", "auto-scale-lr scale-lr"},
    {{}, "use --warmup-steps N, or --warmup EPOCHS, which may be a fraction of an epoch", "warmup-ratio"},
    {{},
     "the warm-up of N steps begins with 1/(N+1) of the peak; --warmup-steps N or --warmup EPOCHS sets its length",
     "warmup-lr warmup-start-lr warmup-bias-lr"},
    {"lr-final", {}, "lrf"},
    {{}, "the momentum has no warm-up and no schedule; leave it out", "warmup-momentum"},
    {{}, "use --lr-schedule polynomial, which is linear with a --lr-power of 1, the default", "linear-lr"},
    {"lr-gamma", {}, "gamma"},
    {{},
     "lockstep's detector has no such setting; leave it out",
     "noautoanchor single-cls anchor-t iou-t anchors mask-ratio no-overlap overlap-mask conf-thres iou-thres max-det "
     "task save-txt save-hybrid save-conf save-json dnn box obj obj-pw cls-pw fl-gamma classwise json-eval "
     "output-eval save-prediction-only save-proposals proposals-path bias slice-infer slice-size overlap-ratio "
     "combine-method match-threshold match-metric use-multilabel auc-roc bucket num-classes classes draw-threshold"},
    {{},
     "lockstep has no inference, no export and no model conversion yet; leave it out",
     "export inference infer-img infer-dir to-static to-static-training output-op for-fd torchscript onnx predict "
     "slim dynamic"},
    {{},
     "lockstep has no hyperparameter search; start one run per setting",
     "evolve evolve-population resume-evolve sweep search auto-tuner-json"},
    {{},
     "use --early-stop METRIC:N, such as accuracy:5, where N counts evaluations",
     "patience early-stop-intervals early-stopping early-stopping-patience"},
    {{},
     "the loss belongs to the model and has no such setting; leave it out",
     "dropout cutoff cls loss focal-loss label-smooth aux-loss"},
    {{},
     "lockstep has no levels of logging; use --log-every N, --explain or --explain-step to see more or less",
     "verbose quiet log-level log-with-timestamp log-without-timestamp log-hide-timestamp no-log-hide-timestamp "
     "print-config debug silent -q"},
    {{},
     "give it to MPI: mpirun --mca btl_tcp_if_include eth0 -np 2 train ...",
     "network-interface network-interfaces nic nics interface iface"},
    {{},
     "lockstep needs no such setting: operations start when a bucket of gradients is complete (--bucket-mb)",
     "cycle-time-ms cycle-time cache-capacity find-unused-parameters static-graph gradient-as-bucket-view "
     "broadcast-buffers thread-affinity mpi-threads-disable no-mpi-threads-disable"},
    {{},
     "use --algorithm NAME to choose an all-reduce; auto, the default, takes the node's shared memory into account",
     "hierarchical-allreduce no-hierarchical-allreduce hierarchical-allgather no-hierarchical-allgather allreduce "
     "all-reduce all-reduce-algorithm"},
    {{},
     "use comm-bench --tune=FILE once, and then train --tuning FILE",
     "autotune no-autotune autotune-log-file autotune-warmup-samples autotune-steps-per-sample "
     "autotune-bayes-opt-max-samples autotune-gaussian-process-noise tune"},
    {{},
     "use --comm-timeout S: an all-reduce without progress for S seconds fails and names the ranks that are missing",
     "stall-check no-stall-check stall-check-warning-time-seconds stall-check-shutdown-time-seconds"},
    {{},
     "give it to mpirun or srun, as in mpirun --bind-to core; --threads sets the threads of a rank",
     "binding-args numa-binding cpu-bind bind-cores affinity numa"},
    {{},
     "lockstep keeps MNIST and CIFAR-10 in memory anyway; leave it out",
     "cache repeats use-shared-memory persistent-workers pin-memory prefetch-factor"},
    {{},
     "train is a program of its own and runs no Python script",
     "module -m no-python start-method training-script training-script-args legacy use-env auto-parallel-config"},
    {{}, "lockstep has no parameter servers: every rank is a trainer", "servers server-num server worker-num-ps"},
    {{},
     "lockstep runs over MPI, and over NCCL for GPU memory; leave it out, or choose --algorithm mpi",
     "gloo with-gloo gloo-port check-build -cb"},
    {{}, "lockstep chooses the memory layout itself; leave it out", "data-format channels-last memory-format"},
    {{},
     "lockstep has no static graphs, no slim and no fleet modes; leave it out",
     "fleet enable-ce use-dali is-distributed distributed dist use-paddlecloud"},
    {{}, "use --ema D with the decay, as --ema 0.999", "use-ema"},
    {{},
     "the same seed, options and number of ranks give the same result anyway; --shards N gives the same bits on any "
     "number of ranks",
     "deterministic determinism cudnn-benchmark benchmark"},
};

std::vector<ForeignOption> split_rows() {
  std::vector<ForeignOption> all;
  for (const Row& row : rows) {
    for (std::size_t begin = 0; begin < row.spellings.size();) {
      const std::size_t end = std::min(row.spellings.find(' ', begin), row.spellings.size());
      all.push_back({row.spellings.substr(begin, end - begin), row.alias, row.answer, row.is_needless});
      begin = end + 1;
    }
  }
  return all;
}

}  // namespace

std::span<const ForeignOption> foreign_options() {
  static const std::vector<ForeignOption> all = split_rows();
  return all;
}

}  // namespace lockstep::train
