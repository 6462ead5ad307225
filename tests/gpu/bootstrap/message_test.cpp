#include "gpu/bootstrap/message.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

/// Through the wire, a byte at a time.
Message there_and_back(const Message& message) {
  FrameReader reader;
  reader.limit(kMaxHelloBytes);
  const std::string bytes = encode(message);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    reader.feed({&bytes[i], 1});
    const auto frame = reader.next();
    REQUIRE(frame);
    REQUIRE_FALSE(*frame);
  }
  reader.feed({&bytes.back(), 1});
  const auto frame = reader.next();
  REQUIRE(frame);
  REQUIRE(*frame);
  auto out = decode(**frame);
  REQUIRE(out);
  // What was read writes the same bytes: every field went both ways.
  CHECK(encode(*out) == bytes);
  return *out;
}

}  // namespace

TEST_CASE("every message survives the wire") {
  const auto hello = std::get<Hello>(
      there_and_back(Hello{1, 4, 1, 2, "host", 77, {{"--batch", "2"}, {"--seq", std::string(300, 'x')}}}));
  CHECK(hello.rank == 1);
  CHECK(hello.settings == std::vector<Setting>{{"--batch", "2"}, {"--seq", std::string(300, 'x')}});
  const auto enter = std::get<Enter>(there_and_back(Enter{9, "NCCL id", std::string("\0\xff\n", 3)}));
  CHECK(enter.sequence == 9);
  CHECK(enter.bytes == std::string("\0\xff\n", 3));
  CHECK(std::get<Heartbeat>(there_and_back(Heartbeat{1ULL << 40, 5000, "step 3"})).progress == 1ULL << 40);
  const auto failed = std::get<Failed>(there_and_back(Failed{{ErrorKind::out_of_memory, "a", "b", "c"}, "d"}));
  CHECK(failed.error.kind == ErrorKind::out_of_memory);
  CHECK(failed.error.hint == "c");
  CHECK(std::get<Gathered>(there_and_back(Gathered{3, {"a", "", "ccc"}})).bytes ==
        std::vector<std::string>{"a", "", "ccc"});
  CHECK(std::get<Refused>(there_and_back(Refused{{ErrorKind::rendezvous, "no", {}, {}}})).error.what == "no");
  CHECK(std::get<ServerHeartbeat>(there_and_back(ServerHeartbeat{"step 4"})).operation == "step 4");
  const auto abort = std::get<Abort>(there_and_back(Abort{{ErrorKind::rank_lost, 3U, "op", "died", "w", "h"}}));
  CHECK(abort.failure.rank == 3U);
  CHECK(abort.failure.text() == "rank 3 died; its last operation: op");
  CHECK_FALSE(std::get<Abort>(there_and_back(Abort{{ErrorKind::interrupted, {}, {}, "x", {}, {}}})).failure.rank);
  there_and_back(Finish{});
  there_and_back(Welcome{});
  there_and_back(LeaveNotice{});
  const Block block = random_block();
  CHECK(std::get<Greeting>(there_and_back(Greeting{block})).nonce == block);
  CHECK(std::get<Challenge>(there_and_back(Challenge{block})).nonce == block);
  CHECK(std::get<Proof>(there_and_back(Proof{block})).mac == block);
  there_and_back(Unproven{});
}

TEST_CASE("two messages in one piece of bytes") {
  FrameReader reader;
  reader.feed(encode(ServerHeartbeat{"a"}) + encode(LeaveNotice{}));
  CHECK((*reader.next())->kind == MessageKind::server_beat);
  CHECK((*reader.next())->kind == MessageKind::leave_notice);
  CHECK_FALSE(*reader.next());
}

TEST_CASE("foreign bytes are found out as early as they can be") {
  const auto refused = [](std::string_view bytes, const std::string& part) {
    FrameReader reader;
    reader.feed(bytes);
    const auto frame = reader.next();
    REQUIRE_FALSE(frame);
    CHECK(frame.error().what.find(part) != std::string::npos);
  };
  refused("G", "does not speak");
  refused("FX", "does not speak");
  refused("FS\x03", "version 3");
  refused(std::string("FS\x02\x01\x00\x00\x20\x00", 8), "more than the");
}

TEST_CASE("a payload cut anywhere, or with more behind it, is malformed") {
  for (const Message& message :
       {Message(Hello{1, 4, 1, 2, "host", 77, {{"k", "v"}}}), Message(Gathered{3, {"a", "bb"}}),
        Message(Abort{{ErrorKind::rank_lost, 3U, "op", "died", "w", "h"}})}) {
    const std::string bytes = encode(message);
    Frame frame{static_cast<MessageKind>(bytes[3]), bytes.substr(kFrameHeaderBytes)};
    for (std::size_t size = 0; size < frame.payload.size(); ++size)
      CHECK_FALSE(decode({frame.kind, frame.payload.substr(0, size)}));
    frame.payload += 'x';
    CHECK_FALSE(decode(frame));
  }
  CHECK_FALSE(decode({static_cast<MessageKind>(99), ""}));
  // A list that claims 2^63 items has those that are there, which is none.
  CHECK_FALSE(decode({MessageKind::gathered, std::string(15, '\0') + '\x80'}));
}
