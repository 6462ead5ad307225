#include "tests/gpu/collectives/bench/variant.hpp"

#include <cstdlib>
#include <vector>

namespace foreshard::gpu {
namespace {

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = text.find(by);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

bool set(SymmMemTuning& t, const std::string& key, const std::string& value) {
  const double number = std::atof(value.c_str());
  const auto count = static_cast<std::uint32_t>(number);
  const auto mib = static_cast<Bytes>(number * static_cast<double>(kMiB));
  if (key == "exchange") {
    t.exchange_gather = t.exchange_scatter = mib;
  } else if (key == "exchange_ctas") {
    t.exchange_ctas = count;
  } else if (key == "brief") {
    t.brief_up_to = mib;
  } else if (key == "direct") {
    t.direct_up_to = mib;
  } else if (key == "way") {
    if (value != "direct" && value != "staged") return false;
    t.exchange_scatter = t.brief_up_to = 0;
    t.direct_up_to = value == "direct" ? 64 * kGiB : 0;
  } else if (key == "ctas") {
    t.reduce.ctas = count;
  } else if (key == "cluster") {
    t.reduce.cluster = count;
  } else if (key == "slots") {
    t.scatter.slots = count;
  } else if (key == "longest") {
    t.scatter.longest = mib;
  } else if (key == "last") {
    t.scatter.last = mib;
  } else if (key == "growth") {
    t.scatter.growth = count;
  } else if (key == "together") {
    t.scatter.together = count;
  } else if (key == "linger") {
    t.linger_ns = static_cast<std::uint64_t>(number * 1000);
  } else {
    return false;
  }
  return true;
}

bool set_type(Variant& v, const std::string& key, const std::string& value) {
  if (key != "in" && key != "out") return false;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    if (value == name(dtype)) {
      if (key == "in") v.input = dtype;
      v.result = dtype;
      return true;
    }
  return false;
}

}  // namespace

Result<Variant> parse_variant(std::string_view text) {
  Variant v;
  v.text = text;
  const std::vector<std::string> words = split(text.substr(text.find(':') + 1), ',');
  v.kind = text.starts_with("ag:") ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter;
  bool known = text.starts_with("ag:") || text.starts_with("rs:");
  if (words[0] == "nccl")
    v.transport = Transport::nccl;
  else if (words[0] == "registered")
    v.transport = Transport::nccl_registered;
  else if (words[0] == "symmetric")
    v.transport = Transport::symmetric;
  else if (words[0] == "copy_engine")
    v.transport = Transport::copy_engine;
  else if (words[0] == "own")
    v.transport = Transport::low_contention;
  else
    known = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::vector<std::string> pair = split(words[i], '=');
    known = known && pair.size() == 2 && (set_type(v, pair[0], pair[1]) || set(v.tuning, pair[0], pair[1]));
  }
  if (!known) return fail(ErrorKind::usage, "not a variant: " + std::string(text));
  return v;
}

}  // namespace foreshard::gpu
