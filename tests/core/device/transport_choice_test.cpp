#include "core/device/transport_choice.hpp"

#include "core/settings/carried_out.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

constexpr auto kGather = CollectiveKind::all_gather;
constexpr auto kScatter = CollectiveKind::reduce_scatter;
constexpr auto kReduce = CollectiveKind::all_reduce;
constexpr auto kPytorch = Lowering::pytorch;
constexpr auto kForeshard = Lowering::foreshard;

/// A call of 1 GiB of bfloat16 that adds, as the transport asked for wants it, among four ranks of one host.
struct Call {
  CollectiveWork work;
  TransportFacts facts;
};
Call call_of(CollectiveKind kind, Transport asked, Lowering lowering) {
  Call out;
  out.work = {kind, asked, kGiB, {}, DType::bfloat16};
  out.work.reduction = Reduction::sum;
  out.facts.lowering = lowering;
  out.facts.ranks = 4;
  return out;
}
TransportChoice chosen(const Call& call) {
  return choose_transport(call.work, call.facts);
}

/// What runs of each transport, by Transport.
using Row = std::array<Transport, kEnumSize<Transport>>;
constexpr auto N = Transport::nccl;
constexpr auto R = Transport::nccl_registered;
constexpr auto S = Transport::symmetric;
constexpr auto C = Transport::copy_engine;
constexpr auto L = Transport::low_contention;
constexpr auto P = Transport::pull_reduce;

/// One fact that differs from call_of().
struct Fact {
  const char* name;
  void (*change)(Call&);
};
constexpr Fact kUsual{"usual", [](Call&) {}};
constexpr Fact kHosts{"two hosts", [](Call& c) { c.facts.one_host = false; }};
constexpr Fact kPeers{"no peer memory", [](Call& c) { c.facts.peer_memory = false; }};
constexpr Fact kLoose{"ordinary buffers", [](Call& c) { c.facts.registered = false; }};
constexpr Fact kNine{"nine ranks", [](Call& c) {
                       c.facts.ranks = 9;
                       c.work.bytes = 9 * kMiB;
                     }};
constexpr Fact kOdd{"odd slices", [](Call& c) { c.work.bytes = 4 * 6; }};
constexpr Fact kAverage{"an average", [](Call& c) { c.work.reduction = Reduction::average; }};
constexpr Fact kDouble{"float64", [](Call& c) { c.work.dtype = DType::float64; }};
constexpr Fact kLarge{"80 GiB", [](Call& c) {
                        c.facts.ranks = 8;
                        c.work.bytes = 80 * kGiB;
                      }};

struct Expected {
  Lowering lowering;
  CollectiveKind kind;
  Fact fact;
  Row runs;  ///< asked for: nccl, nccl_registered, symmetric, copy_engine, low_contention, pull_reduce
};

const std::vector<Expected> kTable{
    {kPytorch, kGather, kUsual, {N, R, S, C, L, N}},
    {kPytorch, kScatter, kUsual, {N, R, S, S, L, P}},
    {kPytorch, kReduce, kUsual, {N, R, S, S, N, N}},
    {kForeshard, kGather, kUsual, {N, R, S, C, L, N}},
    {kForeshard, kScatter, kUsual, {N, R, S, S, P, P}},
    {kForeshard, kReduce, kUsual, {N, R, S, S, N, N}},
    // The host's end is that of windows, copy engines and peer memory.
    {kPytorch, kGather, kHosts, {N, R, N, N, N, N}},
    {kPytorch, kScatter, kHosts, {N, R, N, N, N, N}},
    {kForeshard, kGather, kHosts, {N, R, N, N, N, N}},
    {kForeshard, kScatter, kHosts, {N, R, N, N, N, N}},
    {kForeshard, kGather, kPeers, {N, R, S, C, N, N}},
    {kForeshard, kScatter, kPeers, {N, R, S, S, N, N}},
    // pull_reduce stages an input that lies elsewhere.
    {kPytorch, kReduce, kLoose, {N, N, N, N, N, N}},
    {kForeshard, kGather, kLoose, {N, N, N, N, N, N}},
    {kForeshard, kScatter, kLoose, {N, N, N, N, P, P}},
    // Eight is foreshard's limit, not PyTorch's.
    {kPytorch, kGather, kNine, {N, R, S, C, L, N}},
    {kPytorch, kScatter, kNine, {N, R, S, S, L, N}},
    {kForeshard, kGather, kNine, {N, R, S, C, N, N}},
    {kForeshard, kScatter, kNine, {N, R, S, S, N, N}},
    // NCCL takes odd slices, and foreshard does not give it any.
    {kPytorch, kGather, kOdd, {N, R, S, C, L, N}},
    {kPytorch, kScatter, kOdd, {N, R, S, S, L, P}},
    {kForeshard, kGather, kOdd, {N, R, N, C, L, N}},
    {kForeshard, kScatter, kOdd, {N, R, N, N, P, P}},
    {kPytorch, kGather, kAverage, {N, R, S, C, L, N}},
    {kPytorch, kScatter, kAverage, {N, R, N, N, L, P}},
    {kForeshard, kScatter, kAverage, {N, R, N, N, P, P}},
    {kForeshard, kReduce, kAverage, {N, R, N, N, N, N}},
    {kPytorch, kGather, kDouble, {N, R, S, C, L, N}},
    {kPytorch, kScatter, kDouble, {N, R, N, N, L, N}},
    {kForeshard, kScatter, kDouble, {N, R, N, N, N, N}},
    // The limit of symmetric kernels; copy engines have none.
    {kPytorch, kGather, kLarge, {N, R, N, C, L, N}},
    {kForeshard, kScatter, kLarge, {N, R, N, N, P, P}},
};

}  // namespace

TEST_CASE("what runs, by kind, transport asked for and facts") {
  for (const Expected& row : kTable)
    for (const Transport asked : kEnumValues<Transport>) {
      INFO((row.lowering == kPytorch ? "pytorch " : "foreshard ")
           << name(row.kind) << " by " << name(asked) << ", " << row.fact.name);
      Call call = call_of(row.kind, asked, row.lowering);
      row.fact.change(call);
      const TransportChoice got = chosen(call);
      CHECK(name(got.transport) == name(row.runs[static_cast<std::size_t>(asked)]));
      CHECK(got.why.empty() == (got.transport == asked));
    }
}

TEST_CASE("why a transport does not run") {
  struct Reason {
    CollectiveKind kind;
    Transport asked;
    Fact fact;
    std::string_view why;  ///< or the start of it
  };
  const std::vector<Reason> reasons{
      {kGather, C, kHosts, "a copy-engine all-gather does not cross nodes (NCCL 2.28)"},
      {kScatter, C, kHosts, "symmetric kernels do not cross nodes (NCCL 2.28)"},
      {kScatter, L, kHosts, "pull-reduce reads only GPUs of the same node"},
      {kScatter, L, kUsual, "PyTorch's low-contention reduction is not built here"},
      {kScatter, C, kUsual, "NCCL has no copy-engine reduce-scatter, copy engines cannot add"},
      {kGather, L, kNine, "more than 8 ranks"},
      {kGather, L, kPeers, "the GPUs do not share memory"},
      {kGather, S, kLoose, "a buffer is not in memory of the transport symmetric"},
      {kReduce, S, kLoose, "FSDP2 all-reduces ordinary buffers, which are in no symmetric window"},
      {kScatter, S, kAverage, "NCCL's symmetric kernels support ncclSum only"},
      {kScatter, S, kDouble, "NCCL's symmetric kernels do not add float64"},
      {kGather, S, kOdd, "NCCL's symmetric kernels need slices of whole 4-byte words"},
      {kGather, S, kLarge, "symmetric windows stop at 64 GiB (NCCL 2.28)"},
  };
  for (const Reason& reason : reasons) {
    Call call = call_of(reason.kind, reason.asked, kForeshard);
    reason.fact.change(call);
    CHECK(std::string_view(chosen(call).why).substr(0, reason.why.size()) == reason.why);
  }
}

TEST_CASE("settings name foreshard's reduce-scatter where its program runs it, and nothing else changes") {
  for (const Lowering lowering : {kPytorch, kForeshard})
    for (const Transport asked : kEnumValues<Transport>) {
      Settings settings;
      settings.all_gather = settings.reduce_scatter = asked;
      const Settings carried = carried_out(lowering, settings);
      CHECK(carried.all_gather == asked);
      CHECK(carried.reduce_scatter == (lowering == kForeshard && asked == L ? P : asked));
    }
}

TEST_CASE("only NCCL's symmetric kernels cannot average") {
  for (const Transport transport : kEnumValues<Transport>) {
    Call call = call_of(kScatter, transport, kPytorch);
    const Transport summed = chosen(call).transport;
    call.work.reduction = Reduction::average;
    CHECK(sums_only(transport) == (chosen(call).transport != summed));
  }
}

TEST_CASE("a transport is a value of --all-gather where it gathers") {
  for (const Transport transport : kEnumValues<Transport>)
    CHECK(traits_of(transport).gathers == (algorithm_of(kGather, transport, kPytorch) == transport));
}

}  // namespace foreshard
