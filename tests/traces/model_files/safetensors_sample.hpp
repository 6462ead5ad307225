// Writes small safetensors files for tests: headers as given, data of zero bytes.
#pragma once

#include <cstdint>
#include <string>

namespace foreshard::traces {

/// 8 bytes of length, the header, `data_bytes` zeros.
inline std::string safetensors_bytes(const std::string& header, std::size_t data_bytes) {
  std::string out;
  std::uint64_t length = header.size();
  for (int i = 0; i < 8; ++i, length >>= 8) out.push_back(static_cast<char>(length & 0xFF));
  return out + header + std::string(data_bytes, '\0');
}

}  // namespace foreshard::traces
