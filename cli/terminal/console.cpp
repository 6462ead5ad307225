#include "cli/terminal/console.hpp"

#include <fmt/core.h>

#include "cli/terminal/printable.hpp"

namespace foreshard::cli {
namespace {

// ANSI: bold yellow, bold red, reset; carriage return and "erase line".
constexpr std::string_view kYellow = "\033[1;33m";
constexpr std::string_view kRed = "\033[1;31m";
constexpr std::string_view kReset = "\033[0m";
constexpr std::string_view kWipe = "\r\033[K";

constexpr std::size_t kLongestMessage = 2000;  // the values of inputs stand in messages, however long they are

std::string message(std::string_view text, Lines lines = Lines::one) {
  return printable(shortened(text, kLongestMessage), lines);
}

void line(Console& console, std::string_view color, std::string_view word, std::string_view said, Lines lines) {
  const std::string text = message(said, lines);
  if (console.color)
    console.err << color << word << kReset << ' ' << text << '\n';
  else
    console.err << word << ' ' << text << '\n';
}

}  // namespace

void Console::note(std::string_view text) {
  if (!quiet) err << message(text) << '\n';
}
void Console::warn(std::string_view text) {
  line(*this, kYellow, "warning:", text, Lines::one);
}
void Console::error(std::string_view text) {
  line(*this, kRed, "error:", text, Lines::many);
}

Progress::Progress(Console& console, std::string what)
    : console_(console), what_(std::move(what)), active_(console.terminal && !console.quiet) {
  at(0, 0);
}

Progress::~Progress() {
  if (active_) console_.err << kWipe << std::flush;
}

void Progress::at(std::uint64_t done, std::uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (!active_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  constexpr std::size_t kWidth = 30;
  std::string bar;
  if (total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
    bar = fmt::format(" [{}{}] {:3.0f} %", std::string(filled, '='), std::string(kWidth - filled, ' '), share * 100);
  }
  console_.err << kWipe << what_ << bar << std::flush;
}

}  // namespace foreshard::cli
