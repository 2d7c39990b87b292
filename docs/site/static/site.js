// What is wider than the page scrolls by itself: then the keyboard must reach it.
(() => {
  const reach = () => {
    for (const box of document.querySelectorAll(".table-wrapper, .highlight pre, figure.network")) {
      if (box.scrollWidth > box.clientWidth) {
        box.setAttribute("tabindex", "0");
      } else {
        box.removeAttribute("tabindex");
      }
    }
  };
  // The page has two sidebars: each has a name.
  const name = () => document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "All pages");
  addEventListener("load", name);
  addEventListener("load", reach);
  addEventListener("resize", reach);
})();
