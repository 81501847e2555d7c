// A table that is wider than its page gets the class "wider": site.css adds a hint, or stacks two columns on a phone.
function mark() {
  for (const box of document.querySelectorAll(".pst-scrollable-table-container")) {
    box.classList.remove("wider");
    box.classList.toggle("wider", box.firstElementChild.scrollWidth > box.clientWidth + 1);
  }
}
addEventListener("load", mark);
addEventListener("resize", mark);
