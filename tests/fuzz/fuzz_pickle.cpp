// Any bytes give the pickle reader a document or an Error; the values it builds stay walkable.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.hpp"
#include "traces/pytorch/pickle.hpp"

namespace {

/// Touches every value once by index of its container, as far as a bound: lists may contain themselves.
void walk(const foreshard::traces::PlainDocument& document) {
  std::vector<foreshard::traces::PlainValue> open{document.root()};
  for (std::size_t visited = 0; !open.empty() && visited < 10000; ++visited) {
    const foreshard::traces::PlainValue value = open.back();
    open.pop_back();
    (void)document.int64(value);
    (void)document.uint64(value);
    (void)document.real(value);
    (void)document.boolean(value);
    if (const auto text = document.string(value); text && !text->empty()) FORESHARD_CHECK(text->data() != nullptr, "");
    (void)document.find(value, "segments");
    for (const auto item : document.items(value)) open.push_back(item);
    for (const auto item : document.entries(value)) open.push_back(item);
    if (open.size() > 100000) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const foreshard::traces::PickleLimits limits{.value_bytes = 256 * foreshard::kMiB};
  auto source =
      foreshard::traces::ByteSource::from_memory("input", std::string(reinterpret_cast<const char*>(data), size));
  if (!source) return 0;
  foreshard::traces::SourceWindow window(*source, 256 * foreshard::kMiB);
  const auto pickle = foreshard::traces::read_pickle(window, limits);
  if (pickle) walk(pickle->document);
  return 0;
}
