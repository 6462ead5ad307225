#include "sim/sweep/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/allocator/config.hpp"
#include "core/base/shell_word.hpp"
#include "core/settings/pytorch_version.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/sweep/candidate_list.hpp"

namespace foreshard::sim {
namespace {

using Cure = CauseKind;

/// A JSON value's text as an option takes it, on a command line: without JSON's quotes around a word.
std::string word(const std::string& json) {
  if (json == "null") return "none";
  const bool quoted = json.size() >= 2 && json.front() == '"' && json.back() == '"';
  return shell_word(quoted ? json.substr(1, json.size() - 2) : json);
}

bool records(const Settings& s) {
  return s.release == Release::record_stream || s.reduce_scatter_release == Release::record_stream;
}

/// What PyTorch 2.8 and later do by themselves, where the run does not.
void keep_references(Settings& s) {
  if (!records(s)) return;
  s.release = Release::stash;
  s.reduce_scatter_release.reset();
}

bool is_expandable(const Settings& s) {
  const auto config = parse_alloc_conf(s.alloc_conf, s.pytorch);
  return config && config->expandable_segments;
}

void make_expandable(Settings& s) {
  s.alloc_conf += s.alloc_conf.empty() ? "expandable_segments:True" : ",expandable_segments:True";
}

/// How a training comes to Release::stash. ProcessGroupNCCL.cpp: references are stashed on the Work until wait(), by
/// default since 2.8, where only a collective of one's own still calls Tensor.record_stream.
std::string_view keep_references_in_pytorch(const Settings& s) {
  constexpr int kDefaultSince = 8;
  return pytorch_minor(s.pytorch).value_or(kDefaultSince) >= kDefaultSince
             ? "no Tensor.record_stream in the custom collective (PyTorch 2.8 and later call none: c10d keeps "
               "references "
               "until Work.wait())"
             : "TORCH_NCCL_AVOID_RECORD_STREAMS=1";
}

class List : public CandidateList {
 public:
  List(const Settings& base, std::uint32_t node_gpus) : CandidateList(base), base_(base), node_gpus_(node_gpus) {}

  void releases();
  void streams();
  void allocator();
  void prefetch();
  void program();
  void room();

 private:
  const Settings& base_;
  std::uint32_t node_gpus_;
};

void List::releases() {
  if (!records(base_)) return;
  const std::string_view in_pytorch = keep_references_in_pytorch(base_);
  add("references are kept until Work.wait() instead of record_stream: blocks come back in host order",
      {Cure::record_stream}, keep_references, std::string(in_pytorch));
  add(
      "references are kept, and free pages can move between sizes",
      {Cure::record_stream, Cure::hard_fragmentation, Cure::soft_fragmentation},
      [](Settings& s) {
        keep_references(s);
        if (!is_expandable(s)) make_expandable(s);
      },
      fmt::format("PYTORCH_ALLOC_CONF=expandable_segments:True; and {}", in_pytorch));
}

void List::streams() {
  add("the all-gather is not async: it runs on FSDP's own stream, and stream order frees its buffers",
      {Cure::record_stream}, [](Settings& s) {
        s.unshard_async = false;
        keep_references(s);
      });
  add("gather buffers are allocated on the compute stream, whose pool everything else shares",
      {Cure::record_stream, Cure::stream_pools}, [](Settings& s) {
        s.unshard_async = false;
        s.gather_alloc = GatherAlloc::compute;
        keep_references(s);
      });
  add("async op: gather buffers are allocated on the compute stream (explicit prefetch keeps the overlap)",
      {Cure::stream_pools}, [](Settings& s) {
        s.unshard_async = true;
        s.forward_prefetch = s.forward_prefetch.value_or(1);
        s.backward_prefetch = s.backward_prefetch.value_or(1);
        keep_references(s);
      });
}

void List::allocator() {
  if (is_expandable(base_)) return;
  add("free pages can move between sizes: segments grow instead of standing next to one another",
      {Cure::hard_fragmentation, Cure::soft_fragmentation}, make_expandable);
}

void List::prefetch() {
  for (std::uint32_t depth = base_.forward_prefetch.value_or(0); depth-- > 1;)
    add("fewer gathers ahead in forward", {Cure::stream_pools}, [&](Settings& s) { s.forward_prefetch = depth; });
  for (std::uint32_t depth = base_.backward_prefetch.value_or(0); depth-- > 1;)
    add("fewer gathers ahead in backward", {Cure::stream_pools}, [&](Settings& s) { s.backward_prefetch = depth; });
  add("FSDP2's own prefetch: one all-gather ahead", {Cure::record_stream}, [](Settings& s) {
    s.forward_prefetch.reset();
    s.backward_prefetch.reset();
    s.prefetch_lists = {};
    s.unshard_async = false;
    keep_references(s);
  });
}

void List::program() {
  // The pool of a CUDA graph is as large as the passes' peak.
  const std::vector<Cure> of_graph = base_.cuda_graph ? std::vector{Cure::private_pool_idle} : std::vector<Cure>{};
  add("gathered parameters go after forward", of_graph, [](Settings& s) {
    s.reshard_after_forward = {};
    s.reshard_of_unit.clear();
  });
  if (base_.optimizer == Optimizer::adam)
    add("the fused optimizer makes no temporaries", {}, [](Settings& s) { s.optimizer = Optimizer::adam_fused; });
  if (base_.cuda_graph)
    add("no graph's private pool beside the others", of_graph, [](Settings& s) { s.cuda_graph.reset(); });
  if (base_.units_per_group > 1)
    add("smaller units: less is gathered at once", of_graph, [](Settings& s) { s.units_per_group = 1; });
  if (base_.checkpoint == Checkpoint::none)
    add("activations are computed again in backward instead of kept", of_graph,
        [](Settings& s) { s.checkpoint = Checkpoint::blocks; });
}

void List::room() {
  const bool checkpoints = base_.checkpoint == Checkpoint::none;
  if (checkpoints && base_.optimizer == Optimizer::adam)
    add("activations are computed again, and the fused optimizer makes no temporaries", {}, [](Settings& s) {
      s.checkpoint = Checkpoint::blocks;
      s.optimizer = Optimizer::adam_fused;
    });
  if (!base_.param_dtype)
    for (const Checkpoint checkpoint : {base_.checkpoint, Checkpoint::blocks})
      add(fmt::format("gathered parameters, activations and gradients take half{}",
                      checkpoint == base_.checkpoint ? "" : "; activations are computed again"),
          {}, [&](Settings& s) {
            s.param_dtype = DType::bfloat16;
            s.reduce_dtype = DType::float32;
            s.checkpoint = checkpoint;
          });
  add("parameters, gradients and optimizer states lie in the host's memory", {}, [](Settings& s) { s.offload = true; });
  if (checkpoints)
    add("parameters, gradients and optimizer states lie in the host's memory, and activations are computed again", {},
        [](Settings& s) {
          s.offload = true;
          s.checkpoint = Checkpoint::blocks;
        });
  for (const std::uint32_t times : {2U, 4U, 8U})
    for (const Checkpoint checkpoint : {base_.checkpoint, Checkpoint::blocks})
      add(fmt::format("{} times as many ranks: as much less of parameters, gradients and states on each{}", times,
                      checkpoint == base_.checkpoint ? "" : "; activations are computed again"),
          {}, [&](Settings& s) {
            const bool in_node = s.nodes == 1 && std::uint64_t{s.gpus} * times <= node_gpus_;
            (in_node ? s.gpus : s.nodes) *= times;
            s.checkpoint = checkpoint;
          });
}

}  // namespace

std::vector<Candidate> candidates(const Settings& base, bool out_of_memory, std::uint32_t node_gpus) {
  List list(base, node_gpus);
  list.releases();
  list.streams();
  list.allocator();
  list.prefetch();
  list.program();
  if (out_of_memory) list.room();
  return list.take();
}

std::string setting_text(const Settings& from, const Settings& to) {
  const auto before = setting_options(from);
  const auto after = setting_options(to);
  const std::span<const SettingOption> table = setting_table();  // in the order of options()
  std::string text;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (after[i] != before[i]) text += (text.empty() ? "" : " ") + table[i].option(word(after[i].second));
  return text;
}

namespace {

/// Which of `lines` are to be shown so that those chosen run: the compound statements that they stand in ("for …:"),
/// all of a class, and the list of blocks where one of them names it.
void add_what_they_need(const std::vector<std::string>& lines, std::vector<bool>& chosen) {
  const auto indent = [&](std::size_t i) { return lines[i].empty() ? 0 : lines[i].find_first_not_of(' '); };
  bool names_blocks = false;
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (!chosen[i]) continue;
    std::size_t depth = indent(i);
    for (std::size_t k = i; depth > 0 && k-- > 0;)
      if (indent(k) < depth && lines[k].ends_with(':')) {
        chosen[k] = true;
        depth = indent(k);
      }
  }
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (chosen[i] && lines[i].starts_with("class "))
      for (std::size_t k = i + 1; k < lines.size() && (lines[k].empty() || indent(k) > 0); ++k) chosen[k] = true;
  for (std::size_t i = 0; i < lines.size(); ++i)
    names_blocks |= chosen[i] &&
                    (lines[i].find("blocks[") != std::string::npos || lines[i].find("in blocks:") != std::string::npos);
  for (std::size_t i = 0; names_blocks && i < lines.size(); ++i)
    chosen[i] = chosen[i] || lines[i].starts_with("blocks = ");
}

}  // namespace

std::string pytorch_text(const Settings& from, const Settings& to, const ModuleNames& modules) {
  PythonLines before = python_lines(from, modules);
  PythonLines after = python_lines(to, modules);
  for (PythonLines* code : {&before, &after})
    std::erase(code->lines, "import torch");  // the program that changes has it
  std::string text;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  const auto lacks = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) == lines.end();
  };
  for (const std::string& variable : after.environment)
    if (lacks(before.environment, variable)) add(variable);
  std::vector<bool> chosen;
  for (const std::string& line : after.lines) chosen.push_back(lacks(before.lines, line));
  add_what_they_need(after.lines, chosen);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) add(after.lines[i]);
  for (const std::string& line : before.lines)
    if (lacks(after.lines, line) && !line.empty() && !line.starts_with("#")) add("# leave out: " + line);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace foreshard::sim
