#include "traces/store/rank_fold.hpp"

#include "tests/catch.hpp"
#include "tests/growth.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/store/run_sample.hpp"
#include "traces/store/query.hpp"
#include "traces/store/store.hpp"

namespace foreshard::traces {
namespace {

/// `count` ranks of two all-gathers and a kernel, each in a group of its own; rank `late`'s kernel is longer.
Run ranks(std::uint32_t count, std::uint32_t late) {
  Run run;
  const LabelId label = run.labels.intern("kernel");
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    run.ranks.push_back({rank, {}, {}});
    for (std::int32_t i = 0; i < 3; ++i) {
      RankOpRecord row{rank, 0, {}, -1, {}};
      row.op.label = label;
      row.op.start = row.op.issue = {100 * i};
      row.op.end = {100 * i + (rank == late ? 90 : 50)};
      if (i != 1) {
        row.op.kind = DeviceOpRecord::Kind::collective;
        row.op.communicator = CommunicatorId{i == 0 ? 10 + rank : 40 - rank};
        row.sequence = 0;
      }
      run.rank_ops.push_back(row);
    }
  }
  return run;
}

Run stored(const Run& run) {
  const std::string path = test::path_of("folded.db");
  REQUIRE(write_run(run, path, {.force = true}));
  return read_run(path).value();
}

TEST_CASE("ranks that are alike are stored once, and read as they were", "[store]") {
  const Run run = ranks(8, 5);
  const FoldedRanks folded = fold_ranks(run);
  CHECK(folded.folds.size() == 6);
  CHECK(folded.rank_ops.size() == 6);  // rank 0's and rank 5's
  CHECK(test::difference(run, stored(run)) == "");
  CHECK(fold_ranks(ranks(1, 0)).folds.empty());
}

TEST_CASE("SQL has every rank's rows where it joins rank_fold", "[store][docs]") {
  const std::string path = test::path_of("joined.db");
  REQUIRE(write_run(ranks(8, 5), path, {.force = true}));
  const auto rows = [&](const char* sql) { return query(path, sql).value().rows; };
  CHECK(rows("SELECT rank, count(*) FROM rank_op GROUP BY rank").size() == 2);
  // docs/ranks.md and docs/trace_schema.md.
  const auto all = rows(
      "SELECT of_rank, count(*) FROM (SELECT rank AS of_rank, * FROM rank_op UNION ALL SELECT rank_fold.rank, "
      "rank_op.* "
      "FROM rank_fold JOIN rank_op ON rank_op.rank = rank_fold.alike) GROUP BY of_rank");
  REQUIRE(all.size() == 8);
  for (const auto& row : all) CHECK(std::get<std::int64_t>(row[1]) == 3);
}

TEST_CASE("a rank that differs in anything is stored whole", "[store]") {
  Run run = ranks(3, 9);
  REQUIRE(fold_ranks(run).folds.size() == 2);
  SECTION("in a time") {
    run.rank_ops[4].op.issue.count += 1;
  }
  SECTION("in a label") {
    run.rank_ops[4].op.label = run.labels.intern("another");
  }
  SECTION("in a step") {
    run.rank_ops[4].step = 1;
  }
  SECTION("in which of its groups comes first") {
    run.rank_ops[5].op.communicator = run.rank_ops[3].op.communicator;
  }
  SECTION("by an op more") {
    run.rank_ops.insert(run.rank_ops.begin() + 4, run.rank_ops[4]);
  }
  CHECK(fold_ranks(run).folds.size() == 1);
  CHECK(test::difference(run, stored(run)) == "");
}

TEST_CASE("folding is linear in ranks that all differ", "[store]") {
  const auto all_differ = [](std::uint32_t count) {
    Run run = ranks(count, count);
    for (RankOpRecord& row : run.rank_ops) row.op.end.count += row.rank;
    return run;
  };
  const Run few = all_differ(256);
  const Run many = all_differ(4096);
  const double exponent = foreshard::test::growth_exponent(
      [&](unsigned count) { REQUIRE(fold_ranks(count == 256 ? few : many).folds.empty()); }, 256, 4096);
  INFO("exponent " << exponent);
  CHECK(exponent < foreshard::test::kLinearWithin);
}

TEST_CASE("rows that are not in the order of the ranks are left as they are", "[store]") {
  Run run = ranks(2, 9);
  std::swap(run.ranks[0], run.ranks[1]);
  CHECK(fold_ranks(run).folds.empty());
  CHECK(test::difference(run, stored(run)) == "");
}

TEST_CASE("folded ranks that do not fit are refused", "[store]") {
  Run run = ranks(3, 9);
  const FoldedRanks folded = fold_ranks(run);
  run.rank_ops = folded.rank_ops;
  std::vector<RankFold> folds = folded.folds;
  CHECK(unfold_ranks(folds, run = ranks(3, 9)) == "rank 1 is folded into rank 0, but has rows of its own");
  run.rank_ops = folded.rank_ops;
  SECTION("twice") {
    folds.push_back(folds.front());
    CHECK(unfold_ranks(folds, run) == "rank 1 is folded twice");
  }
  SECTION("into one that is folded") {
    folds[1].alike = 1;
    CHECK(unfold_ranks(folds, run) == "rank 2 is folded into rank 1, but that has no rows");
  }
  SECTION("with other communicators") {
    for (const char* text : {"", "1", "1,2,3", "1,x", "1,", "1 2"}) {
      folds[1].communicators = text;
      CHECK(unfold_ranks(folds, run) == "rank 2's communicators do not fit rank 0's");
    }
  }
  SECTION("one that is not listed") {
    folds[1].rank = 7;
    CHECK(unfold_ranks(folds, run) == "a folded rank is not among the ranks");
  }
  SECTION("more than can be") {
    for (std::uint32_t i = 0; i < kMaxFolds; ++i) folds.push_back({100 + i, 0, "1,2"});
    CHECK(unfold_ranks(folds, run) == "66 ranks are folded, at most 64 can be");
  }
}

}  // namespace
}  // namespace foreshard::traces
