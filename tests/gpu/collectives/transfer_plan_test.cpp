#include "gpu/collectives/transfer_plan.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/gpu/collectives/plan_simulation.hpp"

namespace foreshard::gpu {
namespace {

std::uint8_t value_of(std::uint64_t call, std::uint32_t rank, std::uint64_t index) {
  return static_cast<std::uint8_t>((call * 101 + rank * 37 + index * 7 + index / 251) % 251 + 1);
}

constexpr Bytes kSlice = 96;

/// Puts this rank's slice in its place, right before the all-gather.
bool prepare(PlanSimulation& s, std::uint32_t rank, std::uint64_t call, bool in_place) {
  Memory& memory = in_place ? s.at[rank].output : s.at[rank].input;
  for (Bytes i = 0; i < kSlice; ++i) memory[(in_place ? rank * kSlice : 0) + i] = value_of(call, rank, i);
  return true;
}

/// The output of a finished gather, still whole when it is read.
bool inspect(PlanSimulation& s, std::uint32_t rank, std::uint64_t call) {
  for (std::uint32_t r = 0; r < s.ranks; ++r)
    for (Bytes i = 0; i < kSlice; ++i)
      if (s.at[rank].output[r * kSlice + i] != value_of(call, r, i)) {
        s.wrong.push_back("rank " + std::to_string(rank) + " call " + std::to_string(call));
        return true;
      }
  return true;
}

/// Three gathers in a row into the same outputs; `spoil` changes the plans.
template <class Spoil>
std::string gathers(std::uint32_t ranks, std::uint64_t seed, bool in_place, Spoil spoil) {
  PlanSimulation s(ranks, seed);
  for (SimulatedRank& rank : s.at) {
    rank.input.assign(kSlice, 0);
    rank.output.assign(kSlice * ranks, 0);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    for (std::uint32_t call = 1; call <= 3; ++call) {
      s.add_own(rank, [=](PlanSimulation& sim) { return prepare(sim, rank, call, in_place); });
      TransferPlan plan = plan_gather({ranks, rank, {{0, kSlice}}, in_place, call});
      spoil(plan);
      s.add(rank, plan);
      s.add_own(rank, [=](PlanSimulation& sim) { return inspect(sim, rank, call); });
      // Another reader comes late: others may have gone on to the next call.
      for (int i = 0; i < 20; ++i) s.add_own(rank, [](PlanSimulation&) { return true; });
      s.add_own(rank, [=](PlanSimulation& sim) { return inspect(sim, rank, call); });
    }
  const std::string stuck = s.run();
  if (!stuck.empty()) return stuck;
  return s.wrong.empty() ? "" : s.wrong.front();
}

void keep(TransferPlan&) {}

void drop(std::vector<TransferOp>& ops, TransferOp::Kind kind, Flag flag) {
  ops.erase(
      std::remove_if(ops.begin(), ops.end(), [&](const TransferOp& op) { return op.kind == kind && op.flag == flag; }),
      ops.end());
}

}  // namespace

TEST_CASE("gathers are whole in any order of the ranks' streams") {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 8U})
    for (const bool in_place : {true, false})
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(ranks, in_place, seed);
        REQUIRE(gathers(ranks, seed, in_place, keep) == "");
      }
}

TEST_CASE("the simulation sees an all-gather that does not wait") {
  const auto spoil_before = [](TransferPlan& plan) { drop(plan.before, TransferOp::Kind::wait, Flag::posted); };
  const auto spoil_after = [](TransferPlan& plan) { drop(plan.after, TransferOp::Kind::wait, Flag::posted); };
  int before = 0;
  int after = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    before += gathers(4, seed, true, spoil_before).empty() ? 0 : 1;
    after += gathers(4, seed, true, spoil_after).empty() ? 0 : 1;
  }
  CHECK(before > 0);
  CHECK(after > 0);
}

TEST_CASE("at each step of an all-gather every rank receives from one other") {
  for (std::uint32_t ranks = 2; ranks <= kMaxPeers; ++ranks)
    for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
      std::vector<int> receives(ranks, 0);
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        ++receives[plan_gather({ranks, rank, {{0, kSlice}}, true, 1}).body[step].to.rank];
      CHECK(std::all_of(receives.begin(), receives.end(), [](int count) { return count == 1; }));
    }
}

TEST_CASE("an all-gather of several tensors puts each rank's part of each into its place") {
  const std::vector<GatherPiece> pieces{{0, 96, 0}, {768, 8, 96}, {1024, 0, 104}, {1024, 33, 104}};
  for (std::uint32_t ranks = 2; ranks <= kMaxPeers; ++ranks)
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const bool in_place = seed % 2 == 0;
      PlanSimulation s(ranks, seed);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        s.at[rank].input.assign(137, 0);
        s.at[rank].output.assign(1024 + 33 * ranks, 0);
        s.add_own(rank, [&pieces, rank, in_place](PlanSimulation& sim) {
          for (const GatherPiece& piece : pieces) {
            const Bytes own = in_place ? piece.offset + rank * piece.slice : piece.from;
            for (Bytes i = 0; i < piece.slice; ++i)
              (in_place ? sim.at[rank].output : sim.at[rank].input)[own + i] = value_of(piece.offset, rank, i);
          }
          return true;
        });
        s.add(rank, plan_gather({ranks, rank, pieces, in_place, 1}));
      }
      CHECK(s.run().empty());
      for (const SimulatedRank& at : s.at)
        for (const GatherPiece& piece : pieces)
          for (std::uint32_t r = 0; r < ranks; ++r)
            for (Bytes i = 0; i < piece.slice; ++i)
              REQUIRE(at.output[piece.offset + r * piece.slice + i] == value_of(piece.offset, r, i));
    }
}

TEST_CASE("slices are cut into whole pieces that cover them and shrink towards the end") {
  for (const Bytes slice : {Bytes{1}, Bytes{4095}, Bytes{4097}, kMiB, 2 * kMiB, 5 * kMiB + 2, 128 * kMiB, 3 * kGiB + 6})
    for (const Bytes longest : {Bytes{2} * kMiB, 4 * kMiB, 32 * kMiB})
      for (const std::uint32_t growth : {105U, 150U, 300U}) {
        ScatterTuning tuning;
        tuning.longest = longest;
        tuning.growth = growth;
        const ScatterChunks chunks = cut_slices(slice, tuning);
        CAPTURE(slice, longest, growth, chunks.count, chunks.tail);
        REQUIRE(chunks.count > 0);
        CHECK(chunks.begin(0) == 0);
        CHECK(chunks.begin(chunks.count) == slice);
        for (std::uint32_t k = 0; k < chunks.count; ++k) {
          CHECK(chunks.begin(k) % kPiece == 0);
          CHECK(chunks.bytes(k) > 0);
          CHECK(chunks.bytes(k) <= tuning.slot());
          if (k > 1 && k + 1 < chunks.count) CHECK(chunks.bytes(k) <= chunks.bytes(k - 1));
        }
        if (slice >= 4 * tuning.last && longest > tuning.last)
          CHECK(chunks.bytes(chunks.count - 1) < tuning.last + kPiece);
      }
  CHECK(cut_slices(0, {}).count == 0);
}

namespace {

struct ScatterCase {
  std::uint32_t ranks = 4;
  std::uint64_t seed = 0;
  Bytes slice = 40 * kKiB + 4;
};

ScatterTuning small_tuning() {
  ScatterTuning tuning;
  tuning.slots = 2;
  tuning.longest = 16 * kKiB;
  tuning.last = 4 * kKiB;
  tuning.growth = 200;
  tuning.together = 3;
  return tuning;
}

/// The reduction of one call: chunk by chunk when all have arrived; compares instead of adding, then gives credit.
std::vector<std::function<bool(PlanSimulation&)>> reduction(const ScatterCase& c, std::uint32_t rank,
                                                            std::uint32_t call, std::uint32_t first_chunk,
                                                            bool answers_early) {
  const ScatterTuning tuning = small_tuning();
  const ScatterChunks chunks = cut_slices(c.slice, tuning);
  std::vector<std::function<bool(PlanSimulation&)>> steps;
  for (std::uint32_t k = 0; k < chunks.count; ++k) {
    const std::uint32_t number = first_chunk + k;
    const std::uint32_t slot = number % tuning.slots;
    const auto answer = [=](PlanSimulation& s) {
      for (std::uint32_t p = 0; p < c.ranks; ++p)
        if (p != rank) s.set_flag(p, Flag::credit, rank, slot, number + 1);
      return true;
    };
    const auto wait = [=](PlanSimulation& s) {
      for (std::uint32_t p = 0; p < c.ranks; ++p)
        if (p != rank && !PlanSimulation::reached(s.flag(rank, Flag::arrived, p, slot), number + 1)) return false;
      return true;
    };
    const auto read = [=](PlanSimulation& s) {
      for (std::uint32_t p = 0; p < c.ranks; ++p)
        for (Bytes i = 0; p != rank && i < chunks.bytes(k); ++i)
          if (s.at[rank].staging[staging_offset(tuning, p, number) + i] !=
              value_of(call, p, rank * c.slice + chunks.begin(k) + i)) {
            s.wrong.push_back("rank " + std::to_string(rank) + " chunk " + std::to_string(number));
            return true;
          }
      return true;
    };
    steps.emplace_back(wait);
    if (answers_early) steps.emplace_back(answer);
    for (int i = 0; i < 10; ++i) steps.emplace_back([](PlanSimulation&) { return true; });
    steps.emplace_back(read);
    if (!answers_early) steps.emplace_back(answer);
  }
  return steps;
}

std::string scatters(const ScatterCase& c, std::uint32_t first_chunk, bool answers_early) {
  const ScatterTuning tuning = small_tuning();
  PlanSimulation s(c.ranks, c.seed);
  for (SimulatedRank& rank : s.at) {
    rank.input.assign(c.slice * c.ranks, 0);
    rank.staging.assign(tuning.staging(c.ranks), 0);
    // As after `first_chunk` chunks of earlier calls.
    for (std::uint32_t p = 0; p < c.ranks; ++p)
      for (std::uint32_t slot = 0; slot < tuning.slots; ++slot)
        for (const Flag flag : {Flag::arrived, Flag::credit}) rank.flags[flag_offset(flag, p, slot) / 4] = first_chunk;
  }
  const ScatterChunks chunks = cut_slices(c.slice, tuning);
  for (std::uint32_t rank = 0; rank < c.ranks; ++rank) {
    std::vector<std::function<bool(PlanSimulation&)>> work;
    for (std::uint32_t call = 0; call < 3; ++call) {
      s.add_own(rank, [=](PlanSimulation& sim) {
        for (Bytes i = 0; i < sim.at[rank].input.size(); ++i) sim.at[rank].input[i] = value_of(call, rank, i);
        return true;
      });
      const std::uint32_t first = first_chunk + call * chunks.count;
      s.add(rank, plan_scatter({c.ranks, rank, c.slice, first, call * count_rounds(chunks, tuning)}, tuning));
      for (auto& step : reduction(c, rank, call, first, answers_early)) work.push_back(std::move(step));
    }
    s.add_concurrent(rank, std::move(work));
  }
  const std::string stuck = s.run();
  if (!stuck.empty()) return stuck;
  return s.wrong.empty() ? "" : s.wrong.front();
}

}  // namespace

TEST_CASE("chunks of a reduce-scatter arrive whole and stay until they are read") {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 8U})
    for (const Bytes slice : {Bytes{1}, 12 * kKiB, 40 * kKiB + 4})
      // Running numbers wrap at 2^32: slots and flags must not notice.
      for (const std::uint32_t first_chunk : {0U, 0xfffffff8U})
        for (std::uint64_t seed = 0; seed < 15; ++seed) {
          CAPTURE(ranks, slice, first_chunk, seed);
          REQUIRE(scatters({ranks, seed, slice}, first_chunk, false) == "");
        }
}

TEST_CASE("the simulation sees credit that comes before the read") {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) found += scatters({4, seed}, 0, true).empty() ? 0 : 1;
  CHECK(found > 0);
}

}  // namespace foreshard::gpu
