// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <sstream>

#include "apps/train/metrics_lines.hpp"
#include "apps/train/train_program.hpp"
#include "base/wrapped.hpp"
#include "platform/machine/topology.hpp"
#include "support/background_job.hpp"

namespace lockstep::train {
namespace {

/// Trains and returns the last epoch's event. @param digits  provides its folder for the metrics
nlohmann::json last_epoch(const SmallDigits& digits, int ranks, const std::string& arguments) {
  const std::string path = digits.path("metrics.json");
  const auto result = run_train(ranks, arguments + " --metrics " + path);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const auto events = read_metrics(path);
  return events.size() < 2 ? nlohmann::json() : events[events.size() - 2];
}

TEST(Run, PrintsTheClusterFirstAndEverythingOnce) {
  const SmallDigits digits;
  const auto result = run_train(3, digits.arguments() + " --batch 16 --epochs 1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output.find("3 ranks on 1 node\n"), 0U) << result.output;
  for (const char* part : {"ranks on 1 node\n", "\n       0      0 ", "\n       1      1 ", "\n       2      2 ",
                           "lenet on mnist (96 training and 32 test samples, 10 classes), 3 ranks of ",
                           "gradients all-reduced by auto (lockstep's own)", "epoch  train loss", "test accuracy"}) {
    EXPECT_EQ(occurrences(result.output, part), 1) << part << result.output;
  }
}

TEST(Run, WarnsWhereRanksHaveMoreThreadsThanProcessors) {
  const SmallDigits digits;
  const auto processors = discover_topology().bound_pus.size();
  const std::string arguments = digits.arguments() + " --batch 16 --steps 1 --eval-interval never --threads ";
  const auto result = run_train(2, arguments + std::to_string(processors));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "ranks 0-1 have " + std::to_string(2 * processors) + " threads"), 1)
      << result.output;
}

/// Returns the variables of a process of `train` that was started with these, once it has them.
std::string environment_of_train(const std::string& variables, const std::string& awaited) {
  const SmallDigits digits;
  const testing_support::BackgroundJob job("env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT " + variables + ' ' +
                                               LOCKSTEP_TRAIN + ' ' + digits.arguments() +
                                               " --batch 16 --epochs 1000000 --log-every 1000000 --save-dir none",
                                           digits.path("output.txt"));
  const std::string marker = digits.arguments().substr(digits.arguments().rfind(' ') + 1);
  std::string found;
  EXPECT_TRUE(testing_support::becomes_true(std::chrono::seconds(30), [&] {
    for (const pid_t process : testing_support::processes(LOCKSTEP_TRAIN, marker))
      found = contents_of("/proc/" + std::to_string(process) + "/environ");
    std::replace(found.begin(), found.end(), '\0', '\n');
    return found.find(awaited) != std::string::npos;
  })) << found;
  job.send(SIGKILL);
  return found;
}

TEST(Run, BoundsTheTimeForWhichThreadsSpin) {
  environment_of_train("", "\nGOMP_SPINCOUNT=");
  const std::string chosen = environment_of_train("OMP_WAIT_POLICY=active", "OMP_WAIT_POLICY=active\n");
  EXPECT_EQ(chosen.find("GOMP_SPINCOUNT"), std::string::npos) << chosen;
}

TEST(Run, WithoutATerminalThereAreOnlyPlainLines) {
  const SmallDigits digits;
  const auto result = run_train(2, digits.arguments() + " --batch 16 --epochs 1 --log-every 1");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "epoch 1/1  step 1/6  loss "), 1) << result.output;
  EXPECT_EQ(result.output.find_first_of("\r\x1b"), std::string::npos) << result.output;
}

/// After 30 steps about half of the test images are classified correctly; guessing gives a tenth.
TEST(Run, LeNetLearnsDrawnDigitsAtAnyNumberOfRanks) {
  const SmallDigits digits;
  const auto accuracy = [&](int ranks, const std::string& rate) {
    return last_epoch(digits, ranks, "--threads 1 --steps 30" + rate).at("val_accuracy").get<double>();
  };
  for (const int ranks : {1, 2, 3}) EXPECT_GT(accuracy(ranks, ""), 0.35) << ranks;
  EXPECT_LT(accuracy(2, " --lr 1e-12"), 0.25) << "what has not learned passes too";
}

/// Against labels that are spread over all ten classes, no prediction has a loss below the logarithm of ten.
TEST(Run, LabelSmoothingSpreadsLabelsOverAllClasses) {
  const SmallDigits digits;
  const auto loss = [&](const std::string& arguments) {
    return last_epoch(digits, 2, "--eval-interval never " + arguments).at("train_loss").get<double>();
  };
  EXPECT_LT(loss("--steps 30"), 2.2);
  EXPECT_GE(loss("--steps 30 --label-smoothing 1"), 2.3025);
  const std::string few = digits.arguments() + " --batch 12 --steps 2";
  EXPECT_EQ(loss(few + " --label-smoothing off"), loss(few));
  expect_refused(run_train(2, "--dataset synthetic-words --model crnn --label-smoothing 0.1"), 2,
                 {"--label-smoothing 0.1: the model 'crnn' has no cross-entropy"});
}

TEST(Run, AugmentsImagesButNoTargetsThatWouldNotFit) {
  const SmallDigits digits;
  const auto result = run_train(2, digits.arguments() + " --batch 16 --steps 2 --augment flip,crop");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "\ntraining images augmented by crop,flip\n"), 1) << result.output;
  for (const char* others : {"synthetic-masks --model unet", "synthetic-boxes --model detector"})
    expect_refused(run_train(2, std::string("--augment flip --dataset ") + others), 2,
                   {"--augment flip with --dataset synthetic-", "has a tensor \"labels\", which is not one label"});
}

TEST(Run, ResNet20TakesDrawnColorImages) {
  const SmallDigits digits;
  const auto epoch = last_epoch(digits, 2, "--model resnet20 --dataset synthetic-cifar --steps 3 --batch 16");
  EXPECT_GT(epoch.at("train_loss").get<double>(), 0);
}

/// The normalizers of the losses are summed over the ranks, each of which has different targets.
TEST(Run, ADetectorsLossesAreTheSameOnTwoRanks) {
  const SmallDigits digits;
  const std::string arguments = "--model detector --dataset synthetic-boxes --sync-bn --batch 9 --steps 2 --threads 1";
  const double alone = last_epoch(digits, 1, arguments + " --eval-interval never").at("train_loss").get<double>();
  EXPECT_GT(alone, 0);
  EXPECT_NEAR(last_epoch(digits, 2, arguments).at("train_loss").get<double>() / alone, 1, 1e-4);
}

TEST(Run, AloneNeedsNoLauncher) {
  const SmallDigits digits;
  const auto result = testing_support::run_program(LOCKSTEP_TRAIN + digits.arguments() + " --batch 16 --steps 2 2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output.find("1 rank on 1 node\n"), 0U) << result.output;
}

/// The options include 16-bit gradients on the wire.
TEST(Run, OwnedPartsOfTheUpdateTakeLessMemory) {
  const SmallDigits digits;
  const auto bytes = [&](const std::string& arguments) {
    const std::string path = digits.path("metrics" + std::to_string(arguments.size()) + ".json");
    const auto result =
        run_train(3, digits.arguments() + " --batch 16 --steps 3 --ema 0.9 --metrics " + path + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, " MiB of optimizer state on each rank\n"), 1) << result.output;
    return read_metrics(path).back().at("optimizer_bytes").get<double>();
  };
  const double whole = bytes("");
  EXPECT_NEAR(bytes(" --zero --explain") / whole, 1.0 / 3, 0.01);
  EXPECT_NEAR(bytes(" --zero --compress bf16") / whole, 1.0 / 3, 0.01);
}

TEST(Run, StopsAfterTheStepsAskedForAndSaysSo) {
  const SmallDigits digits;
  const std::string path = digits.path("metrics.json");
  const auto result = run_train(2, digits.arguments() + " --batch 16 --epochs 3 --steps 8 --metrics " + path);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "\n8 steps in "), 1) << result.output;
  const auto end = read_metrics(path).back();
  EXPECT_EQ(end.at("outcome"), "completed");
  EXPECT_TRUE(end.at("signal").is_null());
  EXPECT_EQ(end.at("epochs"), 1);
  EXPECT_EQ(end.at("steps"), 8);
}

TEST(Run, HeaderConfirmsWhatWasAskedFor) {
  const SmallDigits digits;
  const std::string common =
      digits.arguments() + " --model resnet20 --batch 16 --steps 1 --eval-interval never --threads 1 ";
  const auto synchronized = run_train(2, common + "--sync-bn --algorithm ring --lr 0.25");
  ASSERT_EQ(synchronized.exit_code, 0) << synchronized.output;
  for (const char* part : {", onednn in float32\n", "\ngradients all-reduced by ring (lockstep's own)\n",
                           "\nSGD, learning rate 0.25, then cosine decay to 0 at step 1\n",
                           "\nbatch norm synchronized: over all samples of a step (--sync-bn)\n"}) {
    EXPECT_EQ(occurrences(synchronized.output, part), 1) << part << synchronized.output;
  }
  const std::string long_average = "\n--ema 0.999 is too slow for a run of 1 step: ";
  const auto averaged = run_train(1, common + " --ema 0.999");
  EXPECT_EQ(occurrences(averaged.output, long_average), 1) << averaged.output;
  const auto by_rank = run_train(1, common);
  EXPECT_EQ(occurrences(by_rank.output, long_average), 0) << by_rank.output;
  EXPECT_EQ(occurrences(by_rank.output, "\nbatch norm over each rank's own samples of a step\n"), 1) << by_rank.output;
  const auto without = run_train(1, digits.arguments() + " --batch 16 --steps 1 --sync-bn");
  EXPECT_EQ(occurrences(without.output, "\n--sync-bn changes nothing: the model has no batch norm\n"), 1)
      << without.output;
}

/// The header shows the number of steps of the warm-up.
TEST(Run, WarmUpDoesNotDependOnTheLengthOfTheRun) {
  const SmallDigits digits;
  const auto expect_warmup = [&](const std::string& arguments, const std::string& text) {
    const auto result = run_train(1, digits.arguments() + " --batch 4 --threads 1 --eval-interval never " + arguments);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "\nSGD, learning rate 0.05" + text + "\n"), 1) << arguments << result.output;
  };
  // An epoch has 24 steps; lenet's warm-up is 0.15 epochs.
  expect_warmup("--epochs 1", " after a linear warm-up over 3 steps, then cosine decay to 0 at step 24");
  expect_warmup("--epochs 4", " after a linear warm-up over 3 steps, then cosine decay to 0 at step 96");
  expect_warmup("--epochs 2 --warmup 1.5", " after a linear warm-up over 36 steps, then cosine decay to 0 at step 48");
  expect_warmup("--epochs 1 --warmup 0", ", then cosine decay to 0 at step 24");
  expect_warmup("--steps 4", " after a linear warm-up over 2 steps, then cosine decay to 0 at step 4");
  expect_warmup("--epochs 1 --warmup-steps 5",
                " after a linear warm-up over 5 steps, then cosine decay to 0 at step 24");
  expect_refused(run_train(2, digits.arguments() + " --batch 4 --epochs 1 --warmup 1"), 2,
                 {"--warmup: a warm-up over 24 steps must end within the run's 24 steps"});
  expect_refused(run_train(2, digits.arguments() + " --batch 4 --epochs 1 --warmup-steps 24"), 2,
                 {"--warmup-steps: a warm-up over 24 steps must end within the run's 24 steps"});
}

/// A usual recipe for three machines: the batch of each device stays, and the rate is doubled.
TEST(Run, TheHeaderSaysWhereBatchAndLearningRateComeFrom) {
  const SmallDigits digits;
  const auto header = [&](int ranks, const std::string& arguments) {
    const auto result = run_train(ranks, digits.arguments() + " --steps 2 --eval-interval never " + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return testing_support::in_one_line(result.output);
  };
  const std::string three = header(3, "--batch-per-rank 8 --lr 0.05 --lr-scaling 2");
  EXPECT_EQ(occurrences(three, "global batch 24, 8 on each rank, seed 1"), 1) << three;
  EXPECT_EQ(occurrences(three, "learning rate 0.1, then cosine decay to 0 at step 2 the peak is --lr 0.05 times 2"), 1)
      << three;
  // Where there are no GPUs, the reason follows.
  EXPECT_EQ(occurrences(three, "times 2, as --lr-scaling 2 asks epoch") +
                occurrences(three, "times 2, as --lr-scaling 2 asks on CPUs: "),
            1)
      << three;
  const std::string two = header(2, "--batch 25 --lr 0.05 --lr-scaling linear --base-batch 50 --drop-last");
  EXPECT_EQ(occurrences(two, "global batch 25, about 12 on each rank (each epoch leaves out 21 samples)"), 1) << two;
  EXPECT_EQ(occurrences(two,
                        "the peak is --lr 0.05 times 0.5, as --lr-scaling linear asks for a batch of 25 instead "
                        "of 50"),
            1)
      << two;
}

TEST(Run, OneCycleLeavesOutTheWarmUpOfTheModel) {
  const SmallDigits digits;
  const auto result =
      run_train(1, digits.arguments() + " --batch 4 --threads 1 --eval-interval never --lr-schedule one-cycle");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(
                result.output,
                "\nSGD, learning rate from 0.002 to 0.05 in 30 % of 72 steps, then cosine decay to 2e-07 at step 72\n"),
            1)
      << result.output;
}

/// An epoch takes 75 of the 96 images in three steps, and the schedule of the run counts these steps.
TEST(Run, DropLastLeavesOutTheSmallerBatchOfEachEpoch) {
  const SmallDigits digits;
  const std::string path = digits.path("metrics.json");
  const auto result = run_train(2, digits.arguments() + " --batch 25 --epochs 2 --log-every 1 --drop-last --warmup 0" +
                                       " --lr 1 --lr-schedule polynomial --metrics " + path);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "\n6 steps in "), 1) << result.output;
  std::string order;
  int step = 0;
  for (const auto& event : read_metrics(path)) {
    order += event.at("event").get<std::string>() + ' ';
    if (event.at("event") == "step") {
      EXPECT_DOUBLE_EQ(event.at("learning_rate").get<double>(), 1 - step++ / 6.0);
    } else if (event.at("event") == "epoch") {
      EXPECT_NEAR(event.at("images_per_second").get<double>() * event.at("seconds").get<double>(), 75, 1e-6);
    }
  }
  EXPECT_EQ(order, "start step step step epoch step step step epoch end ");
}

TEST(Run, EvaluatesAsOftenAsAskedFor) {
  const SmallDigits digits;
  const auto evaluated = [&](const std::string& arguments) {
    const SmallDigits own;
    const auto result =
        run_train(2, digits.arguments() + " --batch 32 --epochs 3 --metrics " + own.path("m.json") + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "test accuracy"), arguments.ends_with("never") ? 0 : 1) << result.output;
    std::string epochs;
    for (const auto& event : read_metrics(own.path("m.json"))) {
      if (event.at("event") == "epoch") epochs += event.at("val_accuracy").is_null() ? '-' : '+';
    }
    return epochs;
  };
  EXPECT_EQ(evaluated(""), "+++");
  EXPECT_EQ(evaluated(" --eval-interval 2"), "-++");
  EXPECT_EQ(evaluated(" --eval-interval never"), "---");
}

TEST(Run, AModelThatCannotTakeTheDataIsRefusedWithTheOnesThatCan) {
  const auto boxes = run_train(2, "--model lenet --dataset synthetic-boxes");
  expect_refused(boxes, 2,
                 {"train: --model lenet cannot be trained on --dataset synthetic-boxes; use --model detector ("});
  const auto digits = run_train(1, "--model detector --dataset synthetic-digits");
  expect_refused(
      digits, 2,
      {"--model detector cannot be trained on --dataset synthetic-digits; use --model lenet, mobilenet-v2, "});
}

/// Nothing writes to the FIFO, so the ranks wait for data as long as the test wants.
TEST(Run, ShowsWhatItWaitsForWithinFiveSeconds) {
  const SmallDigits digits;
  std::filesystem::remove(digits.file("t10k-labels-idx1-ubyte"));
  ASSERT_EQ(mkfifo(digits.path("t10k-labels-idx1-ubyte").c_str(), 0600), 0);
  const auto result = testing_support::run_program("timeout 8 " + train_command(1, digits.arguments()) + " 2>&1");
  EXPECT_GE(occurrences(result.output, "loading mnist: 5 s so far\n") +
                occurrences(result.output, "loading mnist: 4 s so far\n"),
            1)
      << result.output;
}

TEST(Run, TablesFitAHundredColumnsAndEightyWhereThereAreNoMore) {
  const SmallDigits digits;
  for (const int columns : {80, 100}) {
    const auto result =
        testing_support::run_program("COLUMNS=" + std::to_string(columns) + ' ' +
                                     train_command(2, digits.arguments() + " --batch 16 --steps 2 --explain-step "
                                                                           "--precision bf16") +
                                     " 2>&1");
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_GT(occurrences(result.output, "forward conv1"), 0) << result.output;
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(columns_of(line), static_cast<std::size_t>(columns)) << line;
    }
  }
}

TEST(Run, InFloat64OnTheReferenceRanksDoNotMatter) {
  const SmallDigits digits;
  const std::string arguments = digits.arguments() + " --precision float64 --batch 20 --epochs 1";
  const auto alone = last_epoch(digits, 1, arguments);
  for (const int ranks : {2, 3}) {  // 3 ranks have 10 or 11 of the 32 test images; each must count once
    const auto together = last_epoch(digits, ranks, arguments);
    for (const char* loss : {"train_loss", "val_loss"}) {
      EXPECT_NEAR(together.at(loss).get<double>() / alone.at(loss).get<double>(), 1, 1e-12) << ranks << ' ' << loss;
    }
    EXPECT_EQ(together.at("val_accuracy"), alone.at("val_accuracy")) << ranks;
  }
}

TEST(Run, PrecisionIsShownAndSaysHowItIsEmulated) {
  const SmallDigits digits;
  for (const char* precision : {"bf16", "mixed-fp16"}) {
    const std::string path = digits.path(std::string(precision) + ".json");
    const auto result =
        run_train(1, digits.arguments() + " --batch 16 --steps 2 --explain-step --threads 1 --metrics " + path +
                         " --precision " + precision);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const auto start = read_metrics(path).front();
    EXPECT_EQ(start.at("precision"), precision);
    const auto emulated = start.at("emulated").get<std::string>();
    const bool whole =
        emulated.starts_with("in float32: ") || emulated.starts_with("in float32, which takes less time");
    EXPECT_TRUE(whole || emulated.rfind("in float32 where there are no kernels of it, and else computed by A", 0) == 0)
        << emulated;
    EXPECT_EQ(occurrences(testing_support::in_one_line(result.output),
                          std::string("onednn in ") + precision + " (emulated " + emulated + ") gradients "),
              1)
        << result.output;
    EXPECT_GT(occurrences(result.output, whole ? ", rounded" : ", bf16"), 5) << "operators of the step\n"
                                                                             << result.output;
  }
}

TEST(Run, CompressionIsShownAndChangesTheLossALittle) {
  const SmallDigits digits;
  const std::string arguments = digits.arguments() + " --batch 16 --epochs 1";
  const double exact = last_epoch(digits, 2, arguments).at("train_loss").get<double>();
  for (const std::string format : {"bf16", "fp16"}) {
    const SmallDigits own;
    const std::string path = own.path("metrics.json");
    const auto result =
        run_train(2, own.arguments() + " --batch 16 --epochs 1 --compress " + format + " --metrics " + path);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "(lockstep's own), on the wire in " + format + "\n"), 1) << result.output;
    const auto events = read_metrics(path);
    EXPECT_EQ(events.front().at("compress"), format);
    const double loss = events.at(events.size() - 2).at("train_loss").get<double>();
    EXPECT_NE(loss, exact) << format << ": nothing was rounded";
    EXPECT_NEAR(loss / exact, 1, 0.01) << format;
  }
}

TEST(Run, EveryAlgorithmGivesTheSameLossButForRounding) {
  const SmallDigits digits;
  std::map<std::string, double> losses;
  for (const std::string algorithm :
       {"auto", "ring", "tree", "halving-doubling", "recursive-doubling", "tree-order", "mpi", "mpi --check"}) {
    const auto epoch = last_epoch(digits, 3, digits.arguments() + " --batch 16 --epochs 1 --algorithm " + algorithm);
    losses[algorithm] = epoch.at("train_loss").get<double>();
  }
  for (const auto& [algorithm, loss] : losses) EXPECT_NEAR(loss / losses.at("ring"), 1, 1e-4) << algorithm;
}

/// A progress thread does not change which gradients are reduced, nor in which order.
TEST(Run, AProgressThreadGivesTheSameLossToTheLastBit) {
  const SmallDigits digits;
  const std::string arguments =
      digits.arguments() + " --precision float64 --batch 16 --epochs 1 --algorithm tree-order";
  EXPECT_EQ(last_epoch(digits, 3, arguments).at("train_loss"),
            last_epoch(digits, 3, arguments + " --progress-thread").at("train_loss"));
}

TEST(Run, ExplainsTheBucketsByRankZerosTable) {
  const SmallDigits digits;
  data::write_plain(digits.file("table.json"),
                    R"({"format": "lockstep selection table", "version": 1, "entries": [{"operation": "all_reduce",
                        "ranks": 2, "nodes": 1, "ranks_per_node": [2, 2], "from_bytes": 0, "below_bytes": null,
                        "algorithm": "tree", "segment_bytes": 4321, "blocks_in_flight": 3}]})");
  const std::string arguments = digits.arguments() + " --batch 16 --steps 1 --explain";
  const auto tabled = run_train(2, arguments + " --tuning " + digits.path("table.json"));
  EXPECT_EQ(tabled.exit_code, 0) << tabled.output;
  EXPECT_EQ(occurrences(tabled.output, "# all_reduce on 2 ranks on 1 node\n"), 1) << tabled.output;
  EXPECT_GE(occurrences(tabled.output, " 4321 "), 1) << tabled.output;
  EXPECT_GE(occurrences(testing_support::in_one_line(tabled.output),
                        "table " + digits.path("table.json") + ", entry from 0 "),
            1)
      << tabled.output;
  const auto modeled = run_train(2, arguments);
  EXPECT_EQ(modeled.exit_code, 0) << modeled.output;
  EXPECT_GE(occurrences(modeled.output, "  cost model\n"), 1) << modeled.output;
}

TEST(Run, ATableThatCannotBeReadIsReportedOnce) {
  const SmallDigits digits;
  expect_refused(run_train(3, digits.arguments() + " --batch 16 --steps 1 --tuning missing.json"), 1,
                 {"cannot read 'missing.json': No such file or directory"});
}

}  // namespace
}  // namespace lockstep::train
