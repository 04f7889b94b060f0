/** Light, dark, or as the system has it. */

const KEY = "barograph-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
/** A notebook around the page tells its theme. */
const around = document.documentElement.dataset.system;
let choice = $state<"system" | "light" | "dark">(remembered());
let dark = $state(false);

/** A page in a frame may have no storage. */
function remembered(): "system" | "light" | "dark" {
  try {
    return (localStorage.getItem(KEY) as "light" | "dark" | null) ?? "system";
  } catch {
    return "system";
  }
}

function remember(): void {
  try {
    if (choice === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
  } catch {
    return; // then the choice lasts until the page is closed
  }
}

function apply(): void {
  dark = choice === "dark" || (choice === "system" && (around ? around === "dark" : system.matches));
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

system.addEventListener("change", apply);
apply();

export const theme = {
  get choice() {
    return choice;
  },
  get dark() {
    return dark;
  },
  next(): void {
    choice = choice === "system" ? "light" : choice === "light" ? "dark" : "system";
    remember();
    apply();
  },
};
