#include "traces/pytorch/byte_source.hpp"

#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/pytorch/packing.hpp"

namespace foreshard::traces {
namespace {

using namespace testing;

/// Bytes that do not pack away to nothing.
std::string noise(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = 88172645463325252;  // xorshift64, Marsaglia 2003
  for (char& c : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    c = static_cast<char>(state);
  }
  return bytes;
}

Error unpacking_error(std::string bytes) {
  auto source = ByteSource::from_memory("input", std::move(bytes));
  if (!source) return source.error();
  auto all = read_all(*source, kGiB);
  REQUIRE(!all);
  return all.error();
}

TEST_CASE("a byte source unpacks what its first bytes say") {
  const std::string bytes = "\x80\x04" + noise(1'000'000);
  for (const auto& [packed, packing] :
       {std::pair{bytes, Packing::plain}, {gzip(bytes), Packing::gzip}, {xz(bytes), Packing::xz}}) {
    auto source = source_of(packed);
    CHECK(source.packing() == packing);
    CHECK(read_all(source, kGiB) == bytes);
    CHECK(source.position() == bytes.size());
  }
}

TEST_CASE("files that were concatenated are read one after the other") {
  const std::string first = noise(1000), second = noise(2000);
  auto gz = source_of(gzip(first) + gzip(second) + std::string(512, '\0'));
  CHECK(read_all(gz, kGiB) == first + second);
  for (const std::size_t zeros : {0, 4, 8}) {
    auto lz = source_of(xz(first) + std::string(zeros, '\0') + xz(second) + std::string(zeros, '\0'));
    CHECK(read_all(lz, kGiB) == first + second);
  }
}

TEST_CASE("reads of any size give the same bytes") {
  const std::string bytes = noise(100'000);
  for (const std::size_t step : {1, 7, 4096, 99'999, 200'000}) {
    auto source = source_of(xz(bytes));
    std::string out;
    std::string part(step, '\0');
    for (;;) {
      const auto count = source.read(part);
      REQUIRE(count);
      out.append(part, 0, *count);
      if (*count < step) break;
    }
    CHECK(out == bytes);
    CHECK(source.read(part) == 0);
  }
}

TEST_CASE("a cut or damaged packing is an error with its byte") {
  const std::string bytes = noise(1'000'000);
  std::string gz = gzip(bytes);
  std::string lz = xz(bytes);
  const Error cut_gz = unpacking_error(gz.substr(0, 1000));
  CHECK(cut_gz.what == "the gzip data is cut short");
  CHECK(cut_gz.where == "input, byte 1000");
  const Error cut_xz = unpacking_error(lz.substr(0, 1000));
  CHECK(cut_xz.what == "the xz data is cut short");
  CHECK(cut_xz.where == "input, byte 1000");
  CHECK(unpacking_error(gz.substr(0, 2)).what == "the gzip data is cut short");
  CHECK(unpacking_error(lz.substr(0, 6)).what == "the xz data is cut short");
  gz[gz.size() - 6] = static_cast<char>(gz[gz.size() - 6] ^ 1);  // its CRC
  CHECK(unpacking_error(gz).what == "the gzip data is corrupt (incorrect data check)");
  lz[lz.size() / 2] = static_cast<char>(lz[lz.size() / 2] ^ 1);
  CHECK(unpacking_error(lz).what.starts_with("the xz data is corrupt"));
  CHECK(unpacking_error(gzip(bytes) + "tail").what == "foreign bytes after the end of the gzip data");
  for (const std::string& tail :
       {std::string("tail"), std::string("\xfdtail of another program"), std::string(3, '\0')})
    CHECK(unpacking_error(xz(bytes) + tail).what == "foreign bytes after the end of the xz data");
}

TEST_CASE("what is not read is refused by name") {
  CHECK(unpacking_error("").what == "the file is empty");
  CHECK(unpacking_error("PK\x03\x04rest").what == "this is a zip archive, not a recording");
  CHECK(unpacking_error("PK\x03\x04rest").hint.find("torch.save") != std::string::npos);
  CHECK(unpacking_error("\x28\xb5\x2f\xfdrest").what == "the file is packed with zstandard, which is not read");
  CHECK(unpacking_error("BZh91AY").what == "the file is packed with bzip2, which is not read");
  const auto missing = ByteSource::open("/nonexistent/file.pickle");
  REQUIRE(!missing);
  CHECK(missing.error().text() ==
        "/nonexistent/file.pickle: cannot be opened: No such file or directory\n  hint: give a file of the recording: "
        "its snapshot, trace or about file");
  CHECK(unpacking_error({"SQLite format 3\0", 16}).what == "is a run store (a SQLite file), not a recording");
  const auto folder = ByteSource::open(std::filesystem::temp_directory_path().string());
  REQUIRE(!folder);
  CHECK(folder.error().what == "this is a folder, a file is needed");
}

TEST_CASE("a file that unpacks to more than the limit is refused") {
  auto source = source_of(xz(std::string(10'000'000, '\0')));
  const auto all = read_all(source, 1'000'000);
  REQUIRE(!all);
  CHECK(all.error().what == "the file holds more than 1000000 bytes");
  auto exact = source_of(xz(std::string(1'000'000, '\0')));
  CHECK(read_all(exact, 1'000'000)->size() == 1'000'000);
}

TEST_CASE("a file on disk is read as bytes in memory are") {
  const std::string bytes = noise(600'000);
  const foreshard::test::TemporaryFolder folder;
  auto source = ByteSource::open(folder.write("noise.bin.xz", xz(bytes)));
  REQUIRE(source);
  CHECK(read_all(*source, kGiB) == bytes);
}

}  // namespace
}  // namespace foreshard::traces
