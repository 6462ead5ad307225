#include "tests/catch.hpp"
#include "tests/traces/pytorch/packing.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard::traces {
namespace {

using namespace testing;
using namespace std::string_literals;

std::string snapshot_error(const std::string& bytes) {
  auto source = ByteSource::from_memory("input", bytes);
  if (!source) return source.error().where + ": " + source.error().what;
  const auto file = read_snapshot(*source);
  REQUIRE(!file);
  return file.error().where + ": " + file.error().what;
}

std::string entry(const std::string& fields) {
  return R"({"segments": [], "device_traces": [[{)" + fields + "}]]}";
}
std::string block(const std::string& fields) {
  return R"({"segments": [{"address": 4096, "total_size": 1024, "blocks": [{)" + fields + "}]}]}";
}

TEST_CASE("what is not a snapshot says what it is") {
  CHECK(snapshot_error("\x80\x04].") ==
        "input: this is a list, not a memory snapshot: torch.cuda.memory_snapshot() gives only the segments");
  CHECK(snapshot_error("\x80\x04K\x01.") == "input: this is an integer, not a memory snapshot");
  CHECK(snapshot_error(PickleBytes().dict().text("model").op("N").text("epoch").op("K\x01").end_dict().stop()) ==
        "input: this is not a memory snapshot: a dict without a list 'segments' (its keys: model, epoch)");
  CHECK(snapshot_error("\x80\x04}.") ==
        "input: this is not a memory snapshot: a dict without a list 'segments' (its keys: none)");
  CHECK(snapshot_error("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."s) ==
        "input: this is a checkpoint written by torch.save, not a memory snapshot");
  CHECK(snapshot_error("PK\x03\x04") == "input: this is a zip archive, not a recording");
  CHECK(snapshot_error("\x80\x02"
                       "ccollections\nOrderedDict\n)R.") ==
        "input, byte 2: the pickle holds an object (opcode GLOBAL: collections)");
  CHECK(snapshot_error(R"({"schemaVersion": 1, "traceEvents": []})") ==
        "input: this is a profiler trace, not a memory snapshot");
  CHECK(snapshot_error(R"({"segments": )").starts_with("input: this is not valid JSON"));
  CHECK(snapshot_error("[1, 2]").starts_with("input: this is a list"));
}

TEST_CASE("a packed file that unpacks to something else is refused at its first bytes") {
  constexpr std::size_t kUnpacked = 64 * kMiB;
  ByteSource zeros = source_of(gzip(std::string(kUnpacked, '\0')));
  const auto refused = read_snapshot(zeros);
  REQUIRE(!refused);
  CHECK(refused.error().what.find("byte 0x00 is no pickle opcode") == 0);
  CHECK(zeros.position() < kMiB);
  // A string as long as the rest of the file is not waited for.
  const std::string endless = "\x80\x04}(\x8d" + std::string("\0\0\0\0\x01\0\0\0", 8);
  ByteSource text = source_of(gzip(endless + std::string(kUnpacked, 'x')));
  const auto too_long = read_snapshot(text);
  REQUIRE(!too_long);
  CHECK(too_long.error().what == "a string has 4294967296 bytes, which no memory snapshot has");
  CHECK(text.position() < kMiB);
}

TEST_CASE("a snapshot is read as far as the limit") {
  SnapshotOptions options;
  options.limit = kMiB;
  ByteSource source = source_of("N." + std::string(2 * kMiB, '\0'));
  const auto refused = read_snapshot(source, options);
  REQUIRE(!refused);
  CHECK(refused.error().what == "the file holds more than 1 MiB");
}

TEST_CASE("parts of the wrong kind") {
  CHECK(snapshot_error(R"({"segments": [], "device_traces": {}})") == "input: 'device_traces' is a dict, not a list");
  CHECK(snapshot_error(R"({"segments": [], "device_traces": [1]})") ==
        "input: 'device_traces' holds an integer, not lists");
  CHECK(snapshot_error(R"({"segments": [], "device_traces": [[1]]})") ==
        "input, device_traces[0][0]: the entry is an integer, not a trace entry");
  CHECK(snapshot_error(R"({"segments": [3], "device_traces": [[]]})") ==
        "input, segments[0]: the segment is an integer, not a dict of a segment");
}

TEST_CASE("a trace entry without what it needs") {
  CHECK(snapshot_error(entry(R"("addr": 1)")) == "input, device_traces[0][0]: the entry has no text 'action'");
  CHECK(snapshot_error(entry(R"("action": "alloc", "size": 1, "stream": 0)")) ==
        "input, device_traces[0][0]: the entry has no 'addr'");
  CHECK(snapshot_error(entry(R"("action": "alloc", "addr": 1, "stream": 0)")) ==
        "input, device_traces[0][0]: the entry has no 'size'");
  CHECK(snapshot_error(entry(R"("action": "alloc", "addr": "x", "size": 1, "stream": 0)")) ==
        "input, device_traces[0][0]: the entry has a 'addr' that is a string, not an integer");
  CHECK(snapshot_error(entry(R"("action": "alloc", "addr": 1, "size": -1, "stream": 0)")) ==
        "input, device_traces[0][0]: the entry has a 'size' of 18446744073709551615");
  CHECK(snapshot_error(entry(R"("action": "alloc", "addr": 1, "size": 1, "stream": 0, "time_us": 1.5)")) ==
        "input, device_traces[0][0]: the entry has a 'time_us' that is a float, not an integer");
  CHECK(
      snapshot_error(entry(R"("action": "alloc", "addr": 1, "size": 1, "stream": 0, "time_us": -5000000000000000)")) ==
      "input, device_traces[0][0]: the entry has a 'time_us' of -5000000000000000, which is no time since 1970");
}

TEST_CASE("a segment or block without what it needs") {
  CHECK(snapshot_error(R"({"segments": [{"total_size": 1, "blocks": []}]})") ==
        "input, segments[0]: the segment needs an integer 'address'");
  CHECK(snapshot_error(R"({"segments": [{"address": 1, "total_size": 1}]})") ==
        "input, segments[0]: the segment has no list 'blocks'");
  CHECK(snapshot_error(R"({"segments": [{"address": 18446744073709551615, "total_size": 2, "blocks": []}]})") ==
        "input, segments[0]: the segment reaches beyond the end of memory");
  CHECK(snapshot_error(block(R"("state": "inactive")")) ==
        "input, segments[0].blocks[0]: the block needs an integer 'size'");
  CHECK(snapshot_error(block(R"("size": 1024)")) == "input, segments[0].blocks[0]: the block has no text 'state'");
  CHECK(snapshot_error(block(R"("size": 1024, "state": "lost")")) ==
        "input, segments[0].blocks[0]: the block has the unknown state 'lost'");
  CHECK(snapshot_error(R"({"segments": [{"address": 1, "total_size": 0, "blocks": []}],
                       "external_annotations": [{"stage": "MIDDLE"}]})") ==
        "input, external_annotations[0]: the annotation needs a 'stage' of START or END, a 'name' and a 'time_us'");
}

TEST_CASE("a damaged segment is read and counted as damaged") {
  auto source = source_of(block(R"("size": 512, "state": "inactive")"));
  const auto file = read_snapshot(source);
  REQUIRE(file);
  REQUIRE(file->stats.size() >= 1);
  bool found = false;
  for (const ImportStat& stat : file->stats)
    found |= stat.name == "segment_not_filled" && stat.severity == ImportStat::Severity::error;
  CHECK(found);
}

// One list of 1,000 blocks that 3,000 segments share: 3,000,000 blocks from some 30 kB.
TEST_CASE("shared lists that expand beyond the file are refused") {
  PickleBytes bytes;
  bytes.dict().text("segments").op("](");
  bytes.op("}\x94(").text("size").op("K\x01").text("state").text("inactive").op("u0");
  bytes.op("]\x94(");
  for (int i = 0; i < 1000; ++i) bytes.op("h\x00"s);
  bytes.op("e0");
  bytes.op("}\x94(").text("address").op("K\x01").text("total_size").op("M\xe8\x03").text("blocks").op("h\x01").op("u0");
  for (int i = 0; i < 3000; ++i) bytes.op("h\x02");
  bytes.op("e").end_dict();
  CHECK(snapshot_error(bytes.stop()) == "input: shared lists expand to more entries than a file of this size can hold");
}

}  // namespace
}  // namespace foreshard::traces
