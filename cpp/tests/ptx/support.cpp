#include "support.hpp"

#include <algorithm>
#include <span>

namespace echobuf::ptx::test {

std::string kernel(const std::string& body, const std::string& declarations) {
  return ".version 8.5\n.target sm_90\n.address_size 64\n" + declarations +
         R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<8>;
  .reg .b16 %h<8>;
  .reg .b32 %r<16>, %t;
  .reg .b64 %d<16>, %in, %out, %at;
  .reg .f32 %f<8>;
  .reg .f64 %g<8>;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %at, %t, 8;
  add.u64 %at, %at, %out;
)" + body +
         "\n}\n";
}

std::uint32_t line_of(const std::string& text, const std::string& part) {
  const std::size_t found = text.find(part);
  return static_cast<std::uint32_t>(
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(found),
                     '\n'));
}

std::vector<std::uint64_t> run(const std::string& text, const RunSettings& settings) {
  Machine machine(settings.seed);
  const LoadedModule& module = machine.load(text);
  const auto bytes_of_words = [](const std::vector<std::uint64_t>& words) {
    return std::span(reinterpret_cast<const unsigned char*>(words.data()),
                     words.size() * 8);
  };
  const std::vector<std::uint64_t> addresses{
      machine.memory().allocate(settings.in.size() * 8),
      machine.memory().allocate(settings.out * 8)};
  machine.memory().write(addresses[0], bytes_of_words(settings.in));
  LaunchSettings launch;
  launch.grid = {settings.blocks, 1, 1};
  launch.block = {settings.threads, 1, 1};
  launch.most_instructions = settings.most_instructions;
  const auto arguments = bytes_of_words(addresses);
  machine.launch(module, "k", launch, {arguments.first(8), arguments.last(8)});
  std::vector<std::uint64_t> out(settings.out);
  machine.memory().read(addresses[1],
                        {reinterpret_cast<unsigned char*>(out.data()), out.size() * 8});
  return out;
}

std::optional<Fault> fault_of(const std::string& text, const RunSettings& settings) {
  try {
    run(text, settings);
  } catch (const Fault& fault) {
    return fault;
  }
  return std::nullopt;
}

std::vector<std::uint64_t> results(const std::string& instruction, unsigned result,
                                   const std::vector<unsigned>& bits,
                                   const std::vector<Row>& rows) {
  const auto type = [](unsigned width) {
    return width == 1 ? std::string("pred") : "b" + std::to_string(width);
  };
  constexpr unsigned kThreads = 256;
  const auto stride = static_cast<unsigned>(bits.size() * 8);
  std::string body = "  .reg ." + type(result) + " %z;\n";
  body += "  mov.u32 %r1, %ctaid.x;\n  mad.lo.s32 %r2, %r1, 256, %t;\n";
  body += "  mul.wide.u32 %d1, %r2, " + std::to_string(stride) + ";\n";
  body += "  add.u64 %d1, %d1, %in;\n";
  const std::string names = "abce";
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::string name = std::string("%") + names[i];
    const std::string from = "[%d1+" + std::to_string(8 * i) + "]";
    body += "  .reg ." + type(bits[i]) + " " + name + ";\n";
    if (bits[i] == 1) {
      body += "  ld.global.u32 %r3, " + from + ";\n";
      body += "  setp.ne.u32 " + name + ", %r3, 0;\n";
    } else {
      body += "  ld.global." + type(bits[i]) + " " + name + ", " + from + ";\n";
    }
  }
  body += "  " + instruction + ";\n  mul.wide.u32 %d2, %r2, 8;\n";
  body += "  add.u64 %d2, %d2, %out;\n";
  if (result == 1) {
    body += "  selp.b64 %d3, 1, 0, %z;\n";
  } else if (result == 64) {
    body += "  mov.b64 %d3, %z;\n";
  } else {
    body += "  cvt.u64.u" + std::to_string(result) + " %d3, %z;\n";
  }
  body += "  st.global.u64 [%d2], %d3;\n  ret;";
  RunSettings settings;
  settings.threads = kThreads;
  settings.blocks = static_cast<std::uint32_t>((rows.size() + kThreads - 1) / kThreads);
  settings.out = std::uint64_t{settings.blocks} * kThreads;
  for (const Row& row : rows)
    settings.in.insert(settings.in.end(), row.begin(), row.end());
  while (settings.in.size() < settings.out * bits.size())
    settings.in.insert(settings.in.end(), rows[0].begin(), rows[0].end());
  settings.most_instructions = 10000000;
  auto found = run(kernel(body), settings);
  found.resize(rows.size());
  return found;
}

std::string refusal(const std::string& instruction) {
  try {
    parse(kernel("  " + instruction + "\n  ret;"));
  } catch (const ParseError& error) {
    return error.what();
  }
  return "";
}

std::vector<Row> rows_of(const std::vector<std::uint64_t>& values, unsigned count) {
  std::vector<Row> rows{{}};
  for (unsigned i = 0; i < count; ++i) {
    std::vector<Row> longer;
    for (const Row& row : rows) {
      for (const std::uint64_t value : values) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

std::vector<std::uint64_t> integer_edges(unsigned bits) {
  const std::uint64_t top = std::uint64_t{1} << (bits - 1);
  std::vector<std::uint64_t> values{0,       1,   2,   3,       7,       31,
                                    32,      33,  100, top - 1, top,     top + 1,
                                    top / 3, ~0U, ~1U, 0x89AB,  ~top / 5};
  for (std::uint64_t& value : values) value = low_bits(value, bits);
  values.push_back(low_bits(~std::uint64_t{0}, bits));
  values.push_back(low_bits(~std::uint64_t{0} - 1, bits));
  values.push_back(low_bits(0x0123456789ABCDEF, bits));
  return values;
}

}  // namespace echobuf::ptx::test
