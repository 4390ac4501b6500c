#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/tools/tokenize/tokenize_files.h"

namespace tributary {

int RunTokenizeCommand(const std::vector<std::string>& arguments,
                       const Environment& environment) {
  TokenizeOptions options;
  int64_t threads = std::thread::hardware_concurrency();
  if (threads < 1) threads = 1;
  bool no_end = false;
  CommandLine line(
      "tokenize", "FILES...",
      "Converts text files to a file of token ids, for data.tokens.",
      {{"tokenize book.txt --tokenizer gpt2 --output train.bin",
        "Tokenize a text with the tokenizer in the folder gpt2."},
       {"tokenize *.gz --tokenizer gpt2.tiktoken --output a.npy --format npy",
        "Write the tokens of several files as a NumPy array."}});
  line.SetOperands(&options.files);
  line.AddText("tokenizer", "PATH",
               "The tokenizer: tokenizer.json, a folder of Hugging Face, a "
               ".tiktoken file, or WordPiece's vocab.txt. Required.",
               &options.tokenizer);
  line.AddText("output", "FILE", "The file to write. Required.",
               &options.output);
  line.AddChoice("format", {"llm_c", "uint16", "uint32", "npy"},
                 "Format of the output. Default llm_c.", &options.format);
  line.AddInteger("threads",
                  "Number of threads; it does not change the output. Default: "
                  "the number of cores.",
                  1, 1024, &threads);
  line.AddSwitch("no-end-of-text",
                 "Don't write the end-of-text token after each file.", &no_end);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  options.threads = static_cast<int>(threads);
  options.end_of_text = !no_end;
  for (const auto& [name, missing] :
       {std::make_pair("FILES", options.files.empty()),
        std::make_pair("--tokenizer", options.tokenizer.empty()),
        std::make_pair("--output", options.output.empty())}) {
    if (!missing) continue;
    return ReportError(absl::InvalidArgumentError(
        absl::StrCat(name, " is required (see 'tributary tokenize --help')")));
  }
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const absl::StatusOr<TokenizeProgress> done =
      TokenizeFiles(options, [&](const TokenizeProgress& now) {
        absl::FPrintF(stderr, "%s%s: %s, %d tokens%s",
                      terminal ? "\r\033[K" : "", now.file, TextSize(now.bytes),
                      now.tokens, terminal ? "" : "\n");
      });
  if (terminal) std::fputs("\r\033[K", stderr);
  if (!done.ok()) return ReportError(done.status());
  absl::PrintF("%s: %d tokens from %s of text\n", options.output, done->tokens,
               TextSize(done->bytes));
  return kExitDone;
}

}  // namespace tributary
