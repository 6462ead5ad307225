#include "core/models/expert_parallel.hpp"

#include <cmath>
#include <utility>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/hf_expert_ops.hpp"

namespace foreshard::model {
namespace {

std::string module_of(const Parameter& parameter) {
  return parameter.name.substr(0, parameter.name.rfind('.'));
}

/// How a rank's rows lie behind the first exchange.
struct Arrived {
  Tensor order;  ///< place in the rank-major order of each row of the expert-major one
  Tensor ends;   ///< of each local expert's rows, int32
};

/// _generate_permute_indices and _run_experts_grouped_mm's offsets, of counts by rank, then by local expert.
Arrived expert_major(Tape& tape, const Tensor& counts, std::uint64_t local, std::uint64_t rows) {
  const auto small = [&](const Tensors& inputs, std::string_view label) {
    return run_kernel(tape, inputs, counts->shape, DType::int64, label);
  };
  // With CUB's workspace, as cumsum() of a model's own experts; one launch stands for an op of this small program.
  const auto scan = [&](const Tensor& of, DType dtype) {
    Tensor out = tape.empty(of->shape, dtype);
    const Tensor workspace = tape.workspace(kScanWorkspace);
    tape.launch(Launch::reduction, "aten::cumsum", bytes_cost(of->bytes() + out->bytes()));
    return out;
  };
  const auto of_rows = [&](const Tensors& inputs, std::string_view label) {
    return run_kernel(tape, inputs, {rows}, DType::int64, label);
  };
  constexpr int kViews = 4;  // counts and starts by rank, and their transposes
  for (int i = 0; i < kViews; ++i) tape.spend(HostCall::view);
  const Tensor sums = scan(counts, DType::int64);
  const Tensor starts = small({sums, counts}, "aten::sub");
  const Tensor sizes = run_kernel(tape, {counts}, {local}, DType::int64, "aten::sum", Launch::reduction);
  const Tensor lengths = small({counts}, "aten::copy_");
  const Tensor turned = small({starts}, "aten::copy_");
  const Tensor out_sums = scan(lengths, DType::int64);
  const Tensor out_starts = small({out_sums, lengths}, "aten::sub");
  const Tensor out_ends = small({out_starts, lengths}, "aten::add");
  const Tensor bias = small({turned, out_starts}, "aten::sub");
  const Tensor place = of_rows({}, "aten::arange");
  const Tensor segment = of_rows({place}, "aten::searchsorted");
  const Tensor moved = of_rows({segment}, "aten::index");
  Arrived out;
  out.order = of_rows({place, moved}, "aten::add");
  out.ends = scan(sizes, DType::int32);
  return out;
}

/// Counts to the ranks that have the experts, and the splits of both exchanges to the host, which waits for them.
Tensor exchange_counts(Tape& tape, const Tensor& counts, std::uint64_t ranks) {
  Tensor here = tape.all_to_all(counts, counts->dim(0));
  const auto to_host = [&](const Tensor& of) {
    Tensor split = run_kernel(tape, {of}, {ranks}, DType::int64, "aten::sum", Launch::reduction);
    tape.copy(CopyKind::device_to_host, split->bytes(), "aten::_to_copy");
    return split;
  };
  const Tensor sent = to_host(counts);
  const Tensor taken = to_host(here);
  tape.synchronize();
  return here;
}

/// GroupedExperts.forward between ExpertParallel's dispatch and combine.
Tensor dispatch(Tape& tape, const Settings& settings, const HfExperts& weights, const Tensor& rows,
                const Tensor& counts) {
  const Tensor here = exchange_counts(tape, counts, settings.expert_parallel);
  Tensor x = exchange_rows(tape, rows, received_rows(rows->dim(0), settings.router_imbalance));
  const Arrived arrived = expert_major(tape, here, weights.down->dim(0), x->dim(0));
  x = index_rows(tape, x, arrived.order);
  const Tensor out = hf_grouped_products(tape, weights, x, arrived.ends);
  const Tensor rank_major = put_rows(tape, out, arrived.order);
  return exchange_rows(tape, rank_major, rows->dim(0));
}

/// Moves parameters into units of experts and says where each went.
class Splitter {
 public:
  Splitter(const std::vector<Unit>& units, bool as_groups) : as_groups_(as_groups) {
    std::size_t first = 0;
    for (const Unit& unit : units) {
      numbers_.resize(first + unit.parameters.size());
      add(unit, first, false);
      add(unit, first, true);
      first = numbers_.size();
    }
  }

  [[nodiscard]] std::vector<Unit> take() && { return std::move(units_); }
  void renumber(ParameterId& id) const {
    if (id.valid()) id = numbers_[id.value];
  }

 private:
  void add(const Unit& unit, std::size_t first, bool experts) {
    Unit out{unit.name, {}};
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const Parameter& p = unit.parameters[i];
      if (p.expert_parallel != experts) continue;
      if (experts && out.parameters.empty()) out.name = module_of(p);
      numbers_[first + i] = ParameterId{next_++};
      out.parameters.push_back(p);
    }
    if (experts && out.parameters.empty()) return;
    if (experts && as_groups_)
      join(units_.back(), out);
    else
      units_.push_back(std::move(out));
  }

  static void join(Unit& unit, const Unit& experts) {
    unit.groups = {static_cast<std::uint32_t>(unit.parameters.size()),
                   static_cast<std::uint32_t>(experts.parameters.size())};
    unit.parameters.insert(unit.parameters.end(), experts.parameters.begin(), experts.parameters.end());
  }

  bool as_groups_;

  std::vector<Unit> units_;
  std::vector<ParameterId> numbers_;  // by what they were
  std::uint32_t next_ = 0;
};

}  // namespace

void split_experts(TrainedModel& model, bool as_groups) {
  Splitter splitter(model.units, as_groups);
  for (ParameterId& id : model.order) splitter.renumber(id);
  for (TrainedModel::Place& place : model.places)
    for (ParameterId* id : {&place.id, &place.lora_a, &place.lora_b}) splitter.renumber(*id);
  model.units = std::move(splitter).take();
}

std::uint64_t received_rows(std::uint64_t rows, double imbalance) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(rows) * imbalance));
}

Tensor run_dispatched(WrappedModel& model, std::uint32_t block, const HfExperts& weights, const Tensor& rows,
                      const Tensor& counts) {
  return model.run_experts(block, {rows, counts}, [&](const Tensors& in) {
    return dispatch(model.tape(), model.settings(), weights, in[0], in[1]);
  });
}

}  // namespace foreshard::model
