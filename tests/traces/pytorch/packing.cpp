#include "tests/traces/pytorch/packing.hpp"

#include <lzma.h>
#include <zlib.h>

#include "core/base/check.hpp"

namespace foreshard::traces::testing {

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  FORESHARD_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  std::string input(bytes);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  FORESHARD_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz(std::string_view bytes) {
  std::string out(lzma_stream_buffer_bound(bytes.size()), '\0');
  std::size_t size = 0;
  FORESHARD_CHECK(
      lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                              bytes.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()) == LZMA_OK,
      "liblzma");
  out.resize(size);
  return out;
}

ByteSource source_of(std::string bytes) {
  auto source = ByteSource::from_memory("input", std::move(bytes));
  FORESHARD_CHECK(source.has_value(), source ? "" : source.error().text());
  return std::move(*source);
}

}  // namespace foreshard::traces::testing
