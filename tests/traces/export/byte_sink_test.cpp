// Where exports go: files, packed files, streams, and what happens when they cannot be written.

#include "traces/export/byte_sink.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/pytorch/byte_source.hpp"

using namespace foreshard::traces;

namespace {

struct File {
  foreshard::test::TemporaryFolder folder;
  std::string path = folder.file("bytes");
};

std::string read(const std::string& path) {
  auto source = ByteSource::open(path);
  REQUIRE(source);
  auto bytes = read_all(*source, 1 << 30);
  REQUIRE(bytes);
  return *bytes;
}

}  // namespace

TEST_CASE("bytes come back, packed or not") {
  const File file;
  std::string expected;
  for (const bool gzip : {false, true}) {
    auto sink = ByteSink::to_file(file.path, gzip);
    REQUIRE(sink);
    expected.clear();
    for (int i = 0; i < 50'000; ++i) {
      const std::string piece = std::to_string(i * 7919) + (i % 1000 == 0 ? std::string(70'000, 'x') : "");
      sink->write(piece);
      expected += piece;
    }
    CHECK(sink->written() == expected.size());
    REQUIRE(sink->finish());
    CHECK((read(file.path) == expected));
    CHECK((std::filesystem::file_size(file.path) < expected.size()) == gzip);
  }
}

TEST_CASE("packed bytes do not depend on the time") {
  const File file;
  std::string first;
  for (int i = 0; i < 2; ++i) {
    auto sink = ByteSink::to_file(file.path, true);
    REQUIRE(sink);
    sink->write("the same");
    REQUIRE(sink->finish());
    const std::string stored = foreshard::test::file_bytes(file.path);
    if (i == 0)
      first = stored;
    else
      CHECK((stored == first));
  }
}

TEST_CASE("what cannot be written is an error") {
  CHECK_FALSE(ByteSink::to_file("/no/such/folder/file", false));
  if (std::filesystem::exists("/dev/full"))
    for (const bool gzip : {false, true}) {
      auto sink = ByteSink::to_file("/dev/full", gzip);
      REQUIRE(sink);
      sink->write(std::string(1 << 20, 'x'));
      const auto done = sink->finish();
      REQUIRE_FALSE(done);
      CHECK(done.error().where == "/dev/full");
    }
  std::ostringstream closed;
  closed.setstate(std::ios::badbit);
  ByteSink sink = ByteSink::to_stream(closed);
  sink.write("x");
  CHECK_FALSE(sink.finish());
}
