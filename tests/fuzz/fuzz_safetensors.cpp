// The first 4 bytes are the size of the data, the rest is a header: tensors or an Error. What is accepted covers the
// data without holes and becomes a model or an Error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.hpp"
#include "traces/model_files/checkpoint_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  std::uint64_t bytes = 0;
  for (int i = 3; i >= 0; --i) bytes = bytes << 8 | data[i];
  const std::string header(reinterpret_cast<const char*>(data) + 4, size - 4);
  const auto tensors = foreshard::traces::parse_safetensors_header(header, bytes, "input");
  if (!tensors) return 0;
  std::uint64_t sum = 0;
  for (const auto& tensor : *tensors) sum += tensor.bytes;
  FORESHARD_CHECK(sum == bytes, "the tensors are the data");
  const auto file = foreshard::traces::states_model(*tensors, "input", "input");
  if (!file) return 0;
  std::uint64_t parameters = 0;
  for (const auto& unit : file->model.units)
    for (const auto& parameter : unit.parameters) {
      FORESHARD_CHECK(!parameter.shape.empty() && parameter.numel() > 0, "parameters can be sharded");
      ++parameters;
    }
  FORESHARD_CHECK(parameters > 0 && file->model.units.front().name.empty(), "the root comes first");
  return 0;
}
