#include "gpu/bootstrap/last_operation.hpp"

#include <thread>
#include <vector>

#include "tests/catch.hpp"

using namespace foreshard::gpu;

TEST_CASE("the last operation, its count and its timeout") {
  LastOperation last;
  CHECK(last.get().progress == 0);
  CHECK(last.get().text.empty());
  last.set("step 3", Milliseconds(7));
  CHECK(last.get().progress == 1);
  CHECK(last.get().text == "step 3");
  CHECK(last.get().timeout == Milliseconds(7));
  last.set(std::string(200, 'x'), Milliseconds(0));
  CHECK(last.get().text == std::string(95, 'x'));
}

TEST_CASE("a reader never sees half of a text, and no operation is lost from the count") {
  LastOperation last;
  constexpr int kEach = 100'000;
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c'})
    writers.emplace_back([&, letter] {
      const std::string text(95, letter);
      for (int i = 0; i < kEach; ++i) last.set(text, Milliseconds(0));
    });
  bool whole = true;
  while (last.get().progress < 3 * kEach) {
    const std::string text = last.get().text;
    whole &= text.find_first_not_of(text.empty() ? ' ' : text[0]) == std::string::npos;
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(whole);
  CHECK(last.get().progress == 3 * kEach);
}
