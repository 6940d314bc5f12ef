// What is copied from a block with prompts is its commands, without prompts and outputs.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-md-type=copy]");
  const block = button && button.closest(".language-console");
  if (!block) {
    return;
  }
  event.stopImmediatePropagation();
  const lines = block.querySelector("code").textContent.split("\n");
  const commands = lines.filter((line) => /^[$>] /.test(line)).map((line) => line.slice(2));
  navigator.clipboard.writeText(commands.join("\n") + "\n").then(() => { button.title = "Copied"; });
}, true);
