/** The row of the shared rate: one platform, one rate for all of its agents. */
export const rateName = "platform";
