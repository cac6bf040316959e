// One text, said twice: platforms trim, rewrap and change line ends; the words stay.

export const squeeze = (text: string): string => text.replace(/\s+/g, " ").trim();
